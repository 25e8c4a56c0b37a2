"""The SQLite file without an event loop: for a process that decides a command or two and is gone.

It keeps the same promises as `SqliteStore` and fails with the same errors, on the caller's own thread. To make
or change the schema is not its work.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

from interlock.kernel.record import Kind, Record
from interlock.kernel.storage import CommitUnknown, Company, StoreDown, Transaction
from interlock.store.beside import file_at
from interlock.store.clock import Clock, utc_now
from interlock.store.migrations import newest
from interlock.store.sqlite.batch import SqliteBatches, select
from interlock.store.sqlite.driver import (
    CLOSED,
    FULL,
    OPENING_SECONDS,
    all_or_nothing,
    connect_durably,
    reading,
    roll_back,
    schema_of,
)
from interlock.store.sqlite.guests import GuestsFailed, decide_and_write
from interlock.store.sqlite.wal_checkpoint import Checkpoints
from interlock.store.sqlite.write_lock import WriterLock

R = TypeVar("R", bound=Record)


class BlockingSqlite:
    """One connection to an existing file; for one thread at a time.

    `copies_beside` is for whoever stays: the log is copied back on a thread, and not by every so many calls.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock = utc_now,
        copies_beside: bool = False,
        opening_seconds: float = OPENING_SECONDS,
    ) -> None:
        self._checkpoints = Checkpoints(path) if copies_beside else None
        file = file_at(path)
        self._database = connect_durably(path, opening_seconds)
        self._lock = WriterLock(self._database, path.absolute(), file)
        try:
            self._batches = SqliteBatches(self._database, clock, path.absolute())
            if self._checkpoints is not None:
                self._checkpoints.watch(self._database)
        except BaseException:
            self.close()
            raise

    def is_current(self) -> bool:
        """Whether the file has the schema that this program knows."""
        with reading():
            return schema_of(self._database) == newest("sqlite")

    def transact(self, transaction: Transaction) -> None:
        """Load, decide, write and commit, or raise as `BatchStore.transact` does."""
        began = time.monotonic()
        try:
            self._carry(transaction)
        except GuestsFailed:
            self._carry(transaction.after(time.monotonic() - began), alone=True)

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
            return select(self._database.cursor(), kind.key(tenant, record_id))

    def close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._lock.close()
        self._database.close()

    def _carry(self, transaction: Transaction, *, alone: bool = False) -> None:
        if not self._begin(transaction.acquire_seconds, transaction.company):
            return  # Another process has decided it.
        with all_or_nothing(self._database):
            has_changes = decide_and_write(self._batches, self._lock, transaction, alone=alone)
        if has_changes:
            self._commit()
        else:
            roll_back(self._database)
            self._lock.pass_on()

    def _begin(self, acquire_seconds: float, company: Company | None = None) -> bool:
        for rest in self._lock.tries(acquire_seconds, company):
            rest()
        return self._database.in_transaction

    def _commit(self) -> None:
        try:
            self._database.execute("COMMIT")
        except FULL as error:
            # No room for the frame that makes a commit, so there is none.
            raise StoreDown("the disk is full; make room") from error
        except CLOSED as error:
            raise StoreDown("the file was closed before COMMIT") from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
        self._batches.committed()
        self._lock.pass_on()
