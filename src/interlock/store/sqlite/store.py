"""The store contract on SQLite: WAL, `synchronous=FULL`, `BEGIN IMMEDIATE`, several processes on one file.

A server, the SDK in a program and `interlock exec` all use this one path to the file (decision 0042). One connection
writes. Its statements are short and run on the event loop; only COMMIT, which waits for the disk, runs on a thread
(0003). A process that finds the write lock taken tries again until its time is up (`WriteLock`). Another thread
copies the log back into the file while commits go on (0034).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from interlock.kernel.clock import Clock, SteadyClock
from interlock.kernel.ids import new_id
from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.storage import CommitUnknown, LockTimeout, Row, StoreDown, Transaction
from interlock.kernel.store_state import Repaired, StoreState
from interlock.store import statements
from interlock.store.catalogue import named_sql, pending, steps
from interlock.store.sqlite import threads
from interlock.store.sqlite.batch import SqliteBatches, rows_of, select
from interlock.store.sqlite.driver import (
    BROKEN,
    BUSY,
    FAILED,
    FULL,
    OPENING_SECONDS,
    Database,
    all_or_nothing,
    connect_durably,
    reading,
    roll_back,
    schema_of,
    try_to_begin,
)
from interlock.store.sqlite.place import down, expect_store, make_private
from interlock.store.sqlite.threads import QueryThreads, WalCheckpoint, WorkerThreads

FileIdentity = tuple[int, int]

# Short pauses take processor time from the process that has the lock, long ones leave the lock unused. So
# pauses are short only for a process that has waited for a while.
_PAUSE_SECONDS = (0.001, 0.008)
_PAUSE_SECONDS_LATER = (0.0005, 0.002)
_LATER_SECONDS = 0.02


R = TypeVar("R", bound=Record)
Heard = Callable[[frozenset[str] | None], None]

_POLL_SECONDS = 0.05
_PRUNE_SECONDS = 0.001
_MIGRATION_SECONDS = 30.0
_UPKEEP_SECONDS = 30.0


class SqliteStore:
    """Records in one SQLite file."""

    lanes = 1

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock | None = None,
        opening_seconds: float = OPENING_SECONDS,
        makes: bool = True,
    ) -> None:
        """A store that is not there is made by `open`, unless `makes` is False."""
        self._path = Path(path).absolute()  # Some connections are made later, wherever the program is then.
        self._clock = clock or SteadyClock()
        self._opening_seconds = opening_seconds
        self._makes = makes
        self.turn = asyncio.Lock()
        self._writer: Database | None = None
        self._batches: SqliteBatches | None = None
        self._reader: Database | None = None
        self._commits = WorkerThreads("sqlite-commit")
        self._queries = QueryThreads(self._path)
        self._checkpoint = WalCheckpoint(self._path)
        self._lock: WriteLock | None = None
        self._heard: Heard | None = None
        self._seen_version: int | None = None
        self._looked_at = float("-inf")
        self._watcher: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        threads.watch(self)
        try:
            async with self.turn:
                await self._commits.run(self._expect_place)
                writer, _, lock = await self._commits.run(self._connect)
                await self._migrate(writer, lock)
                self._reader = await self._commits.run(partial(connect_durably, self._path))
                self._is_open = True
        except BaseException as error:
            await self.close()
            if isinstance(error, (FAILED, OSError)):
                raise down(error, self._path) from error
            if isinstance(error, LockTimeout):
                raise StoreDown(f"cannot open the database file {self._path}: {error}") from error
            raise

    async def close(self) -> None:
        if self._watcher:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        self._is_open = False
        await self._commits.run(self.let_go)
        self._commits.stop()
        threads.unwatch(self)

    def let_go(self) -> None:
        """Close the file before a fork (threads.py); while the store is open, the next use opens it again."""
        self._queries.close()
        self._checkpoint.close()
        for database in (self._reader, self._writer):
            if database:
                database.close()
        self._reader = self._writer = self._batches = self._lock = None

    async def transact(self, transaction: Transaction) -> None:
        async with self.turn:
            writer, batches, lock = self._opened()
            await lock.acquire(transaction.acquire_seconds)
            self._notice_others(writer)
            with all_or_nothing(writer):
                has_changes = batches.decide_and_write(transaction)
            if has_changes:
                await self._commit(writer)
            else:
                roll_back(writer)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settled by a write, which also overwrites what a failed COMMIT left in the log."""
        async with self.turn:
            writer, batches, lock = self._opened()
            await lock.acquire(within_seconds)
            with all_or_nothing(writer):
                never = batches.abandon(batch_id)
            try:
                await self._commit(writer)
            except CommitUnknown as error:
                raise StoreDown(f"the database file does not take writes: {error}") from error
            return not never

    async def raise_epoch(self, why: str) -> StoreState:
        async with self.turn:
            writer, batches, lock = self._opened()
            await lock.acquire(_UPKEEP_SECONDS)
            with all_or_nothing(writer):
                raised = batches.raise_epoch(new_id("batch"), why)
            await self._commit(writer)
            return raised

    async def repair_clock(self, *, only_look: bool = False) -> Repaired | None:
        """Set the store's clock back to the machine's; None if it is not ahead. `only_look` says what would be done."""
        async with self.turn:
            writer, batches, lock = self._opened()
            await lock.acquire(_UPKEEP_SECONDS)
            with all_or_nothing(writer):
                repaired = batches.repair_clock()
            if repaired is None or only_look:
                roll_back(writer)
            else:
                await self._commit(writer)
            return repaired

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        with reading(self._path):
            return select(self._reading().cursor(), kind.key(tenant, record_id))

    async def query(self, name: str, params: Params, *, bytes_max: int | None = None) -> list[Row]:
        with reading(self._path):
            return await self._queries.run(named_sql(name), params, bytes_max)

    async def glance(self, name: str, params: Params) -> list[Row]:
        # A thread would take the interpreter from the event loop for every row.
        with reading(self._path):
            return rows_of(self._reading(), named_sql(name), params)

    async def listen(self, heard: Heard) -> None:
        self._heard = heard
        self._watcher = asyncio.create_task(self._watch(), name="sqlite-watch")

    async def ping(self, within_seconds: float) -> None:
        _, _, lock = self._opened()
        lock.expect_same_file()
        with reading(self._path):
            self._reading().execute("SELECT 1 FROM batches LIMIT 1").fetchall()

    async def prune(self, *, rows_max: int = statements.PRUNED_MAX) -> int:
        async with self.turn:
            writer, batches, lock = self._opened()
            await lock.acquire(_PRUNE_SECONDS)
            with all_or_nothing(writer):
                now = micros(batches.now())
                gone = 0
                for name in statements.PRUNE_BLOCKS:
                    rows_of(writer, named_sql(name), statements.prune_params(now, rows_max))
                    gone += writer.changes()
            await self._commit(writer)
            return gone

    # The writer's turn.

    async def _commit(self, writer: Database) -> None:
        try:
            await self._commits.run(partial(writer.execute, "COMMIT"))
        except FULL as error:
            # There was no room for the frame that completes a commit, so nothing was committed.
            raise down(error, self._path) from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
        self._opened()[1].committed()

    # Connections.

    def _expect_place(self) -> None:
        if not expect_store(self._path, makes=self._makes, patience_seconds=self._opening_seconds):
            make_private(self._path)

    def _opened(self) -> tuple[Database, SqliteBatches, WriteLock]:
        if self._writer is None or self._batches is None or self._lock is None:
            self._expect_open()
            with reading(self._path):
                return self._connect()
        return self._writer, self._batches, self._lock

    def _reading(self) -> Database:
        if self._reader is None:
            self._expect_open()
            self._reader = connect_durably(self._path)
        return self._reader

    def _expect_open(self) -> None:
        if not self._is_open:
            raise StoreDown("the store is not open")

    def _connect(self) -> tuple[Database, SqliteBatches, WriteLock]:
        file = file_at(self._path)
        self._writer = writer = connect_durably(self._path, self._opening_seconds)
        self._checkpoint.watch(writer)
        self._batches = batches = SqliteBatches(writer, self._clock, self._path)
        self._lock = lock = WriteLock(writer, self._path, file)
        return writer, batches, lock

    # Schema and wake-ups.

    async def _migrate(self, writer: Database, lock: WriteLock) -> None:
        # Another process may hold the lock for long; most often there is no need to wait for it.
        if not pending("sqlite", schema_of(writer)):
            return
        await lock.acquire(_MIGRATION_SECONDS)
        with all_or_nothing(writer):
            current = schema_of(writer)
            for step in steps(pending("sqlite", current), from_scratch=current == 0):
                writer.execute(step.sql)
                if step.ends:
                    writer.execute(f"PRAGMA user_version = {step.ends.number}")
        writer.execute("COMMIT")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if not self.turn.locked():
                with contextlib.suppress(StoreDown), reading(self._path):
                    self._notice_others(self._opened()[0])

    def _notice_others(self, writer: Database) -> None:
        """Commits of other processes change the writer's `data_version`, its own do not; their topics are unknown.

        So all who wait in this process are woken, which is worth doing now and then but not for every commit elsewhere.
        """
        now = time.monotonic()
        if now - self._looked_at < _POLL_SECONDS:
            return
        self._looked_at = now
        version = writer.execute("PRAGMA data_version").get
        if self._heard is not None and self._seen_version is not None and version != self._seen_version:
            self._heard(None)
        self._seen_version = version


class WriteLock:
    """The file's one write lock, which the processes that share the file take in turns.

    A connection has it from the end of `acquire` to COMMIT or ROLLBACK. SQLite lets a process try to take the lock,
    but not sleep until it is free. So a process that finds it taken tries again after a short random pause, until its
    time is up. SQLite's own busy handler does the same with pauses of up to 100 ms, and would block the event loop
    during them.

    There is no queue: chance decides which process finds the lock free. A process that has waited for a while tries
    more often, so that none loses for long (decision 0042 has the figures).
    """

    def __init__(self, database: Database, path: Path, file: FileIdentity | None = None) -> None:
        """`file` is the file that was at the path before it was opened: afterwards another one may be there."""
        self._database = database
        self._path = str(path)
        self._file = file or file_at(path)

    async def acquire(self, within_seconds: float) -> None:
        """Begin a transaction that may write.

        Raises `LockTimeout` when the time is up, and `StoreDown` if the file is bad or is not there any more.
        """
        began = time.monotonic()
        while not self._has_begun():
            waited = time.monotonic() - began
            if waited >= within_seconds:
                raise LockTimeout("another process holds the database's write lock")
            pause = _PAUSE_SECONDS if waited < _LATER_SECONDS else _PAUSE_SECONDS_LATER
            await asyncio.sleep(random.uniform(*pause))

    def expect_same_file(self) -> None:
        """Raise `StoreDown` if the file at the path is not the one that was opened: writes would be lost."""
        if file_at(self._path) != self._file:
            raise StoreDown(
                "the database file was removed or replaced while in use; start this process again"
            )

    def _has_begun(self) -> bool:
        try:
            roll_back(self._database)
            try_to_begin(self._database)
        except BUSY:
            return False
        except BROKEN as error:
            raise down(error, self._path) from error
        try:
            self.expect_same_file()
        except StoreDown:
            roll_back(self._database)
            raise
        return True


def file_at(path: str | Path) -> FileIdentity | None:
    """Which file is there, whatever its name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - it is asked before every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
