"""The SQLite file without an event loop: for a process that decides a command or two and is gone.

It keeps the same promises as `SqliteStore` and fails with the same errors, on the caller's own thread. To make
or change the schema is not its work.
"""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path
from typing import TypeVar

from interlock.kernel.record import Kind, Record
from interlock.kernel.storage import CommitUnknown, LockTimeout, StoreDown, Transaction
from interlock.store.clock import Clock, utc_now
from interlock.store.migrations import newest
from interlock.store.sqlite_batch import SqliteBatches, select
from interlock.store.sqlite_driver import (
    BROKEN,
    BUSY,
    FULL,
    all_or_nothing,
    connect_durably,
    reading,
    roll_back,
    try_to_begin,
)
from interlock.store.turns import Turns

R = TypeVar("R", bound=Record)

# Where nobody says that the lock is free, each looks a few times in the time that a turn takes. Whoever has just
# written finds it free before anybody who sleeps wakes up, so it lets others go first while there are others.
_JITTER = (0.5, 1.5)
_LOOKING_SECONDS_MIN, _LOOKING_SECONDS_MAX = 0.0005, 0.005
_COMPANY_SECONDS = 0.5
# Where somebody says it, this is only for one who was stopped or killed before it could. Whoever runs already is
# quicker than whoever must wake up first, so it has a few turns in a row.
_TOLD_SECONDS = 0.02
_TURNS_IN_A_ROW = 8


class BlockingSqlite:
    """One connection to an existing file; of one thread."""

    def __init__(self, path: Path, *, clock: Clock = utc_now) -> None:
        self._database = connect_durably(path)
        self._batches = SqliteBatches(self._database, clock)
        self._turns = Turns(path)
        self._seen_version: int | None = None
        self._company_until = 0.0
        self._began_at = 0.0
        self._held_seconds = 0.0
        self._woke_one: bool | None = None  # None where nobody can tell
        self._in_a_row = 0

    def is_current(self) -> bool:
        """Whether the file has the schema that this program knows."""
        with reading():
            return int(self._database.execute("PRAGMA user_version").get) == newest("sqlite")

    def transact(self, transaction: Transaction) -> None:
        """Load, decide, write and commit, or raise as `BatchStore.transact` does."""
        self._begin(transaction.acquire_seconds)
        with all_or_nothing(self._database):
            has_changes = self._batches.decide_and_write(transaction)
        if has_changes:
            self._commit()
        else:
            roll_back(self._database)

    def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settle an unknown COMMIT for ever: True if it happened, False if it now never can."""
        self._begin(within_seconds)
        with all_or_nothing(self._database):
            never = self._batches.abandon(batch_id)
        try:
            self._commit()
        except CommitUnknown as error:
            raise StoreDown(f"the database file does not take writes: {error}") from error
        return not never

    def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        """One record as last committed."""
        with reading():
            return select(self._database.cursor(), kind, tenant, record_id)

    def close(self) -> None:
        self._turns.close()
        self._database.close()

    def _begin(self, acquire_seconds: float) -> None:
        deadline = time.monotonic() + acquire_seconds
        if self._has_company():
            self._rest(self._turns.seen())
        for attempt in itertools.count():
            # Whoever is done between this look and the rest ends the rest.
            seen = self._turns.seen() if attempt else None
            if self._has_begun():
                return
            if time.monotonic() >= deadline:
                raise LockTimeout("another process holds the database's writer lock")
            if attempt:
                self._rest(seen)

    def _has_begun(self) -> bool:
        try:
            roll_back(self._database)
            try_to_begin(self._database)
        except BUSY:
            return False
        except BROKEN as error:
            raise StoreDown(f"the database file does not answer: {error}") from error
        self._began_at = time.monotonic()
        return True

    def _rest(self, seen: int | None) -> None:
        looking = min(_LOOKING_SECONDS_MAX, max(_LOOKING_SECONDS_MIN, self._held_seconds))
        self._turns.wait(seen, _TOLD_SECONDS if seen is not None else looking * random.uniform(*_JITTER))

    def _has_company(self) -> bool:
        """Whether it is others' turn: somebody was woken by the last few turns, or wrote since the last one."""
        if self._woke_one is not None:
            self._in_a_row = self._in_a_row + 1 if self._woke_one else 0
            return self._in_a_row % _TURNS_IN_A_ROW == _TURNS_IN_A_ROW - 1
        now = time.monotonic()
        with reading():
            version = self._database.execute("PRAGMA data_version").get
        if self._seen_version not in (None, version):
            self._company_until = now + _COMPANY_SECONDS
        self._seen_version = version
        return now < self._company_until

    def _commit(self) -> None:
        try:
            self._database.execute("COMMIT")
        except FULL as error:
            # No room for the frame that makes a commit, so there is none.
            raise StoreDown("the disk is full; make room") from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
        self._held_seconds = time.monotonic() - self._began_at
        self._woke_one = self._turns.pass_on()
