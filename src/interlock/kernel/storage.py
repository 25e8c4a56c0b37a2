"""What the kernel needs of a store: carry one batch in one transaction, or say exactly how it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from interlock.kernel.record import Key, Pick, Reads, Record
from interlock.kernel.store_state import FRESH, StoreState
from interlock.kernel.world import Changes

_REMEMBERED_SECONDS = 300.0


class Loaded(msgspec.Struct, frozen=True):
    """What a load found, as last committed; an absent key maps to None.

    `busy` are keys to own that somebody else holds. Whoever only sees them finds them in `records`. `alone` says
    that nobody else can write until this batch ends, so that to have seen a record is as good as to own it.
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
    """Somebody else wrote a key first, or is writing it; load again and decide again. Nothing was written."""


class LockTimeout(Exception):
    """The lock on the whole store was not to be had within the given time. Nothing was written."""


class StoreDown(Exception):
    """The store cannot be reached or broke off before COMMIT. Nothing was written."""

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class StoreHeld(StoreDown):
    """The store cannot be opened, because another process has it to itself. Nothing was written."""


class StoreUnwritable(StoreDown):
    """The store answers and takes no writes: its disk is full, or it is read-only. Nothing was written."""


class CommitUnknown(Exception):
    """COMMIT was sent and its answer did not come back; `committed` can settle whether it happened."""


def is_remembered(began: float) -> bool:
    """Whether a store can be asked about a batch that began then, by `time.time`.

    Stores forget the ids of batches after an hour (`prune`), and whoever asks may have slept for longer.
    """
    return 0 <= time.time() - began < _REMEMBERED_SECONDS


class CommitUnconfirmed(Exception):
    """COMMIT happened here, but a copy that must have it did not confirm. Nobody can settle that now."""


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
        """Settle an unknown COMMIT for ever: True if it happened, False if it now never can."""
        ...

    async def ping(self, within_seconds: float) -> None:
        """Return if the store answers in time; raise `StoreDown` if not."""
        ...
