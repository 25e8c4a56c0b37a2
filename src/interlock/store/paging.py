"""Pages of records by id, newest first: what every room's list queries return."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from interlock.kernel.record import Kind, Params, Record
from interlock.store.contract import Store

R = TypeVar("R", bound=Record)

# Sorts after every id: ids are ASCII words, and this is the last printable character.
NEWEST = "~"


class Records(msgspec.Struct, Generic[R], frozen=True):
    """One page; `next_cursor` is the id to go on from, or None at the end."""

    items: list[R]
    next_cursor: str | None


async def page_of(
    store: Store, kind: Kind[R], name: str, params: Params, before: str | None, limit: int
) -> Records[R]:
    """Run a named list query that takes `before` and `limit`."""
    rows = await store.query(name, {**params, "before": before or NEWEST, "limit": limit})
    items = [kind.decode(row[0]) for row in rows]
    return Records(items, items[-1].id if len(items) == limit else None)
