"""The store contract: everything a store must do, in eleven verbs.

`open`, `transact`, `committed` (settle a lost COMMIT), `get` and `query` (plain reads for people), `glance` (one
that a loop repeats all the time), `listen`, `ping`, `prune`, `raise_epoch` (after a restore), `close`. Stores differ
in where records live and in nothing a caller can see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from interlock.kernel.record import Kind, Params, Record
from interlock.kernel.storage import BatchStore
from interlock.kernel.store_state import StoreState

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Row = Sequence[Any]

# Tables of the first migration. No other program has all of them.
OUR_TABLES = ("answers", "api_keys", "audit_entries", "batches", "events", "principals")


class SchemaTooNew(Exception):
    """The store was written by a newer Interlock; upgrade this one instead of guessing."""


class StoreMissing(Exception):
    """There is no store at the place, and none may be made there now. Nothing was made."""


class NotAStore(Exception):
    """What is at the place belongs to something else; it was left as it was."""


class Store(BatchStore, Protocol):
    """A place where records live."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date; refuse a schema newer than this program.

        `StoreMissing` if there is none and this one was not told to make it; `NotAStore` if the place is somebody
        else's.
        """
        ...

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        """One record as last committed, or None."""
        ...

    async def query(self, name: str, params: Params, *, bytes_max: int | None = None) -> list[Row]:
        """Run a named, bounded query of a room (`room.block`).

        `bytes_max` is for one that finds bodies, which may be large: it ends with the first row that comes after so
        many bytes of them.
        """
        ...

    async def glance(self, name: str, params: Params) -> list[Row]:
        """Run a named query that follows an index to a handful of rows, and takes no longer than a `get`.

        A store may run it in the middle of everything else, where handing it to somebody would cost more.
        """
        ...

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        """Call `heard` with topics other processes woke, or None when hints may have been lost."""
        ...

    async def prune(self, *, rows_max: int = ...) -> int:
        """Forget batch ids older than an hour (never the newest) and expired answers.

        At most `rows_max` of each go in one pass; returns how many went. Raises `LockTimeout` or
        `StoreDown` if it cannot work now, which costs nothing: the next pass will do.
        """
        ...

    async def raise_epoch(self, why: str) -> StoreState:
        """Have every fence from now on be greater than all before, also than those that the store has lost."""
        ...

    async def close(self) -> None: ...


def refuse_foreign(place: object) -> NotAStore:
    """How to refuse a database that holds somebody else's tables."""
    return NotAStore(
        f"{place} holds tables of another program and none of Interlock's; it was left as it is. "
        "Name a database of its own for Interlock"
    )


def bytes_of(row: Row) -> int:
    """How long the texts of a row are."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in row if isinstance(text, str))


def count_within(sizes: Sequence[int], bytes_max: int) -> int:
    """How many of them, one after the other, begin before so many bytes: at least one, and the last may pass it."""
    return sum(ahead < bytes_max for _, ahead in zip(sizes, accumulate(sizes, initial=0), strict=False))


def cut(
    found: Sequence[T],
    limit: int,
    cursor: Callable[[T], str],
    *,
    rows: int | None = None,
    is_full: bool = False,
) -> tuple[list[T], str | None]:
    """One page out of a query that was asked for one more, and where to go on if that one came.

    `rows` is how many came, if some of them could not be read; `is_full` says that more did not fit the page.
    """
    page = list(found[:limit])
    is_more = is_full or (len(found) if rows is None else rows) > limit
    return page, cursor(page[-1]) if page and is_more else None
