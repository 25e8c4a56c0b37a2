"""The SQLite file without an event loop: for a process that decides a command or two and is gone.

It keeps the same promises as `SqliteStore` and fails with the same errors, on the caller's own thread. To make
or change the schema is not its work.
"""

from __future__ import annotations

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
)

R = TypeVar("R", bound=Record)

# As in `SqliteStore`: whoever waits in `busy_timeout` starves. Many processes that look often take the processor from
# the one that holds the lock, so each looks a few times in the time that a turn takes.
_BUSY_JITTER = (0.2, 1.0)
_BUSY_SECONDS_MIN, _BUSY_SECONDS_MAX = 0.0005, 0.005
# Whoever has just written finds the lock free before anybody who sleeps wakes up, so it lets others go first,
# about as long as it held the lock itself, while there are others.
_COURTESY = (0.5, 1.5)
_COURTESY_SECONDS_MAX = 0.02
_COMPANY_SECONDS = 0.5


class BlockingSqlite:
    """One connection to an existing file; of one thread."""

    def __init__(self, path: Path, *, clock: Clock = utc_now) -> None:
        self._database = connect_durably(path)
        self._batches = SqliteBatches(self._database, clock)
        self._seen_version: int | None = None
        self._company_until = 0.0
        self._began_at = 0.0
        self._held_seconds = 0.0

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
        self._database.close()

    def _begin(self, acquire_seconds: float) -> None:
        self._let_others_go_first()
        deadline = time.monotonic() + acquire_seconds
        while True:
            try:
                roll_back(self._database)
                self._database.execute("BEGIN IMMEDIATE")
                self._began_at = time.monotonic()
                return
            except BUSY:
                if time.monotonic() >= deadline:
                    raise LockTimeout("another process holds the database's writer lock") from None
            except BROKEN as error:
                raise StoreDown(f"the database file does not answer: {error}") from error
            pause = self._held_seconds * random.uniform(*_BUSY_JITTER)
            time.sleep(min(_BUSY_SECONDS_MAX, max(_BUSY_SECONDS_MIN * random.uniform(*_BUSY_JITTER), pause)))

    def _let_others_go_first(self) -> None:
        now = time.monotonic()
        with reading():
            version = self._database.execute("PRAGMA data_version").get
        if self._seen_version not in (None, version):
            self._company_until = now + _COMPANY_SECONDS
        self._seen_version = version
        if now < self._company_until:
            time.sleep(min(_COURTESY_SECONDS_MAX, self._held_seconds * random.uniform(*_COURTESY)))

    def _commit(self) -> None:
        try:
            self._database.execute("COMMIT")
            self._held_seconds = time.monotonic() - self._began_at
        except FULL as error:
            # No room for the frame that makes a commit, so there is none.
            raise StoreDown("the disk is full; make room") from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
