"""Pages of records by id, newest first: what every room's list queries return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from interlock.kernel.record import Kind, Params, Record
from interlock.store.contract import Row, Store, bytes_of, count_within
from interlock.store.unreadable import readable

R = TypeVar("R", bound=Record)

# Sorts after every id: ids are ASCII words, and this is the last printable character.
NEWEST = "~"

# A page is at most as many items as were asked for and as many bytes as this, but for its last item: two hundred
# records of a megabyte each would be a hundred times what a server has for one answer.
PAGE_BYTES_MAX = 2 * 1024 * 1024

_LOOKS_MAX = 8


class Records(msgspec.Struct, Generic[R], frozen=True):
    """One page; `next_cursor` is the id to go on from, or None at the end."""

    items: list[R]
    next_cursor: str | None


async def page_of(
    store: Store,
    kind: Kind[R],
    name: str,
    params: Params,
    before: str | None,
    limit: int,
    *,
    keep: Callable[[R], bool] | None = None,
) -> Records[R]:
    """Run a named list query that takes `before` and `limit`.

    `keep` leaves out what the query could not, and records that cannot be read are left out; the page is then
    filled up in a few looks.
    """
    items: list[R] = []
    found: list[R] = []
    # One more than the page holds tells whether there is another page.
    count = limit + 1
    for _ in range(_LOOKS_MAX):
        rows, is_full = await rows_for_page(
            store, name, {**params, "before": before or NEWEST, "limit": count}
        )
        found = readable(kind, (row[0] for row in rows))
        if not found and len(rows) == count:
            count *= 2  # Not even where to go on can be read, so look further from here.
            continue
        items += filter(keep, found) if keep else found
        before = found[-1].id if found and (is_full or len(rows) == count) else None
        if before is None or is_full or len(items) > limit:
            break
    if len(items) > limit:
        return Records(items[:limit], items[limit - 1].id)
    return Records(items, before if found else None)


async def rows_for_page(store: Store, name: str, params: Params) -> tuple[list[Row], bool]:
    """What a query finds, as far as it fits a page; and whether its bytes have filled one and there is more."""
    rows = await store.query(name, params, bytes_max=PAGE_BYTES_MAX)
    fitting = count_within([bytes_of(row) for row in rows], PAGE_BYTES_MAX)
    return rows[:fitting], fitting < len(rows)
