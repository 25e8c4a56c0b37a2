"""What the kernel needs of a store: carry one batch in one transaction, or say exactly how it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from interlock.kernel.record import Key, Pick, Reads, Record
from interlock.kernel.world import Changes


class Loaded(msgspec.Struct, frozen=True):
    """What a load found. `busy` are keys that somebody else holds; they were not loaded."""

    now: datetime
    records: Mapping[Key, Record | None]
    picked: Sequence[tuple[Pick[Any], Sequence[Record]]] = ()
    busy: frozenset[Key] = frozenset()


class Transaction(msgspec.Struct, frozen=True):
    """One batch as the store sees it: first reads, perhaps more reads, then what to write."""

    batch_id: str
    reads: Reads
    more: Callable[[Loaded], Reads]
    decide: Callable[[Loaded], Changes]
    acquire_seconds: float


class WriteConflict(Exception):
    """Somebody else wrote a key first; load again and decide again. Nothing was written."""


class LockTimeout(Exception):
    """The store's writer lock was not to be had within the given time. Nothing was written."""


class StoreDown(Exception):
    """The store cannot be reached or broke off before COMMIT. Nothing was written."""

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class CommitUnknown(Exception):
    """COMMIT was sent and its answer did not come back."""


class BatchStore(Protocol):
    """The part of a store that the kernel drives."""

    @property
    def lanes(self) -> int:
        """How many batches may be under way at once."""
        ...

    async def transact(self, transaction: Transaction) -> None:
        """Load, decide, write and commit, or raise one of the errors above."""
        ...

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settle an unknown COMMIT for ever: True if it happened, False if it now never can."""
        ...
