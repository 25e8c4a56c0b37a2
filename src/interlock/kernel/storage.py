"""The store contract: run one batch in one transaction, or say exactly how it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.kernel.record import Key, Kind, Params, Pick, Reads, Record
from interlock.kernel.store_state import FRESH, StoreState
from interlock.kernel.world import Changes

_REMEMBERED_SECONDS = 300.0


class Loaded(msgspec.Struct, frozen=True):
    """What a load found, as last committed; an absent key maps to None.

    `busy` are keys to own that another transaction holds. A command that only sees them finds them in `records`.
    `alone` says that no other process can write until this batch ends, so that seeing a record is as good as owning it.
    `unreadable` are keys whose rows hold something else than their record; they are not in `records`. `state` is what
    the store says of itself; that of the first load counts.
    """

    now: datetime
    records: Mapping[Key, Record | None]
    picked: Sequence[tuple[Pick[Any], Sequence[Record]]] = ()
    busy: frozenset[Key] = frozenset()
    alone: bool = False
    unreadable: frozenset[Key] = frozenset()
    state: StoreState = FRESH


class Transaction(msgspec.Struct, frozen=True):
    """One batch as the store sees it: first reads, perhaps more reads, then what to write.

    A store calls `more` with the first load, loads what that asks for, and calls `decide` with the
    second load, or with None if nothing was asked for. It may start over from `more`. `acquire_seconds`
    is how long to wait for a lock on the whole store, where there is such a thing.
    """

    batch_id: str
    reads: Reads
    more: Callable[[Loaded], Reads]
    decide: Callable[[Loaded | None], Changes]
    acquire_seconds: float


class WriteConflict(Exception):
    """Another transaction wrote a key first, or is writing it; load and decide again. Nothing was written."""


class LockTimeout(Exception):
    """The lock on the whole store could not be taken within the given time. Nothing was written."""


class StoreDown(Exception):
    """The store cannot be reached or broke off before COMMIT. Nothing was written."""

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class StoreHeld(StoreDown):
    """The store cannot be opened, because another process has it open exclusively. Nothing was written."""


class StoreUnwritable(StoreDown):
    """The store answers and takes no writes: its disk is full, or it is read-only. Nothing was written."""


class CommitUnknown(Exception):
    """COMMIT was sent and its answer did not come back; `committed` can settle whether it happened."""


def is_remembered(began: float) -> bool:
    """Whether a store can be asked about a batch that began then, by `time.time`.

    Stores forget the ids of batches after an hour (`prune`), and the process may have been suspended for longer.
    """
    return 0 <= time.time() - began < _REMEMBERED_SECONDS


class CommitUnconfirmed(Exception):
    """COMMIT happened here, but a replica that must have it did not confirm. It cannot be settled now."""


class BatchStore(Protocol):
    """The part of a store that the kernel drives."""

    @property
    def lanes(self) -> int:
        """How many batches may be under way at once."""
        ...

    async def transact(self, transaction: Transaction) -> None:
        """Load, decide, write and commit, or raise one of the errors above.

        Any other error means that nothing was written and that this batch will fail again as it is.
        """
        ...

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settle an unknown COMMIT for good: True if it happened, False if it now never can."""
        ...

    async def ping(self, within_seconds: float) -> None:
        """Return if the store answers in time; raise `StoreDown` if not."""
        ...


R = TypeVar("R", bound=Record)
T = TypeVar("T")
Row = Sequence[Any]

# Told how many statements of a migration are done, by what they are part of; only for a store that was there before.
# A command that shows it sets this around the opening of a store, which may be many layers below.
MIGRATION_STEPS: ContextVar[Callable[[str, int, int], object] | None] = ContextVar(
    "MIGRATION_STEPS", default=None
)

# Tables of the first migration. No other program has all of them.
OUR_TABLES = ("answers", "api_keys", "audit_entries", "batches", "events", "principals")


class SchemaTooNew(Exception):
    """The store was written by a newer Interlock; upgrade this one instead of guessing."""


class StoreMissing(Exception):
    """There is no store at the place, and none may be made there now. Nothing was made."""


class NotAStore(Exception):
    """The place holds data of another program, which was left unchanged."""


class Store(BatchStore, Protocol):
    """A place where records live."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date; refuse a schema newer than this program.

        `StoreMissing` if there is none and this one was not told to make it; `NotAStore` if the place
        holds something else.
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

        A store may run it in the middle of everything else, where handing it to a thread would cost more.
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
        """Make every later fence greater than all earlier ones, including fences that the store has lost."""
        ...

    async def close(self) -> None: ...


def refuse_foreign(place: object) -> NotAStore:
    """The refusal of a database that holds tables of another program."""
    return NotAStore(
        f"{place} holds tables of another program and none of Interlock's; it was left as it is. "
        "Name a database of its own for Interlock"
    )


def bytes_of(row: Row) -> int:
    """How long the texts of a row are."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in row if isinstance(text, str))


def count_within(sizes: Sequence[int], bytes_max: int) -> int:
    """How many rows, in order, begin within `bytes_max`: at least one, and the last may exceed it."""
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
