"""Pages of records by id, newest first: the result of every list query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from interlock.kernel.record import Kind, Params, Pick, Record
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Row, Store, bytes_of, count_within

R = TypeVar("R", bound=Record)

_SPOILT_MAX = 256


def readable(kind: Kind[R], bodies: Iterable[bytes | str]) -> list[R]:
    """The records in these bodies. One that cannot be read must not hide the others."""
    found: list[R] = []
    for body in bodies:
        try:
            found.append(kind.decode(body))
        except Unreadable as unreadable:
            report(unreadable)
    return found


def report(unreadable: Unreadable) -> None:
    """Log a record that was left out, once."""
    _report(unreadable.kind, unreadable.why)


def met() -> int:
    """How many unreadable records this process has reported, up to a bound."""
    return _report.cache_info().currsize


class Choosing(Generic[R]):
    """One pick under way: run its query for `asks_for` rows and `take` them, until it asks for none.

    Rows that cannot be read, or whose columns say something else than their bodies, must not use up its limit, or
    they would hide the rows behind them. If `bytes_max` cut the rows off, the pick is reported with the limit that it
    reached.
    """

    def __init__(self, pick: Pick[R], now: datetime) -> None:
        self.asks_for = pick.limit
        self.bytes_max = pick.bytes_max
        self.picked: tuple[Pick[R], Sequence[R]] = (pick, ())
        self._pick = pick
        self._now = now

    def take(self, rows: Sequence[Any]) -> None:
        """Keep the rows that match. Ask again, for more, if rows that do not match may have hidden others."""
        pick, now = self._pick, self._now
        fitting = rows[: self._count_fitting(rows)]
        found = [each for each in readable(pick.kind, (row[0] for row in fitting)) if pick.matches(each, now)]
        is_cut = len(fitting) < len(rows) and len(found) < pick.limit
        self.picked = (limited(pick, len(found)) if is_cut else pick, found[: pick.limit])
        spoilt = len(fitting) - len(found)
        if is_cut and not found:
            self.bytes_max = 2 * (self.bytes_max or 0)
        elif is_cut or len(rows) < self.asks_for or len(found) >= pick.limit or spoilt > _SPOILT_MAX:
            self.asks_for = 0
        else:
            self.asks_for = pick.limit + spoilt

    def _count_fitting(self, rows: Sequence[Any]) -> int:
        if self.bytes_max is None:
            return len(rows)
        return count_within([bytes_of(row) for row in rows], self.bytes_max)


def limited(pick: Pick[R], limit: int) -> Pick[R]:
    """The same pick with this limit."""
    return msgspec.structs.replace(pick, limit=limit)


@lru_cache(maxsize=256)
def _report(kind: str, why: str) -> None:
    import logging  # here, because it is rarely needed and slow to import

    logging.getLogger(__name__).error("a stored %s cannot be read: %s", kind, why)


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
            count *= 2  # None of the rows can be read, so there is no cursor: ask for more rows from here.
            continue
        items += filter(keep, found) if keep else found
        before = found[-1].id if found and (is_full or len(rows) == count) else None
        if before is None or is_full or len(items) > limit:
            break
    if len(items) > limit:
        return Records(items[:limit], items[limit - 1].id)
    return Records(items, before if found else None)


async def rows_for_page(store: Store, name: str, params: Params) -> tuple[list[Row], bool]:
    """The rows of a query that fit a page; and whether bytes filled the page and there are more rows."""
    rows = await store.query(name, params, bytes_max=PAGE_BYTES_MAX)
    fitting = count_within([bytes_of(row) for row in rows], PAGE_BYTES_MAX)
    return rows[:fitting], fitting < len(rows)
