"""SQLite: the embedded default. WAL, `synchronous=FULL`, `BEGIN IMMEDIATE`, several processes on one file.

One connection writes. Its statements are short and run on the event loop; only what waits runs on a thread: COMMIT
for the disk (decisions 0003 and 0026), and BEGIN for another process that has the file's one writer lock (0025).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.storage import CommitUnknown, LockTimeout, StoreDown, Transaction
from interlock.store import pruning
from interlock.store.aside import Aside
from interlock.store.clock import Clock, utc_now
from interlock.store.contract import Row
from interlock.store.migrations import pending
from interlock.store.named_sql import NamedSql, named_sql
from interlock.store.sqlite_batch import SqliteBatches, rows_of, select
from interlock.store.sqlite_driver import (
    FAILED,
    FULL,
    Database,
    all_or_nothing,
    connect_durably,
    reading,
    roll_back,
)
from interlock.store.writer_lock import WriterLock

R = TypeVar("R", bound=Record)
Heard = Callable[[frozenset[str] | None], None]

_POLL_SECONDS = 0.05
_PRUNE_SECONDS = 0.001
_MIGRATION_SECONDS = 30.0
_QUERY_THREADS = 2


class SqliteStore:
    """Records in one SQLite file."""

    lanes = 1

    def __init__(self, path: str | Path, *, clock: Clock = utc_now) -> None:
        self._path = Path(path)
        self._clock = clock
        self._turn = asyncio.Lock()
        self._writer: Database | None = None
        self._batches: SqliteBatches | None = None
        self._reader: Database | None = None
        self._aside = Aside()
        self._queries = QueryThreads(self._path)
        self._lock: WriterLock | None = None
        self._heard: Heard | None = None
        self._seen_version: int | None = None
        self._looked_at = float("-inf")
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = await asyncio.to_thread(connect_durably, self._path)
            self._batches = SqliteBatches(self._writer, self._clock)
            self._lock = WriterLock(self._writer, self._path)
            await self._migrate(self._writer, self._lock)
            self._reader = await asyncio.to_thread(connect_durably, self._path)
        except BaseException as error:
            await self.close()
            if isinstance(error, (FAILED, LockTimeout, OSError)):
                raise StoreDown(f"cannot open the database file {self._path}: {error}") from error
            raise

    async def close(self) -> None:
        if self._watcher:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await self._aside.close()
        await asyncio.to_thread(self._queries.close)
        for database in (self._reader, self._writer):
            if database:
                database.close()
        if self._lock:
            self._lock.close()
        self._reader = self._writer = self._batches = self._lock = None

    async def transact(self, transaction: Transaction) -> None:
        async with self._turn:
            writer, batches, lock = self._opened()
            await self._begin(lock, transaction.acquire_seconds)
            self._notice_others(writer)
            with all_or_nothing(writer):
                has_changes = batches.decide_and_write(transaction)
            if has_changes:
                await self._commit(writer, lock)
            else:
                roll_back(writer)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settled by a write: it also overwrites what a COMMIT that failed half-way left in the log."""
        async with self._turn:
            writer, batches, lock = self._opened()
            await self._begin(lock, within_seconds)
            with all_or_nothing(writer):
                never = batches.abandon(batch_id)
            try:
                await self._commit(writer, lock)
            except CommitUnknown as error:
                raise StoreDown(f"the database file does not take writes: {error}") from error
            return not never

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        with reading():
            return select(self._reading().cursor(), kind, tenant, record_id)

    async def query(self, name: str, params: Params) -> list[Row]:
        with reading():
            return await self._queries.run(named_sql(name), params)

    async def glance(self, name: str, params: Params) -> list[Row]:
        # A thread would take the interpreter from the event loop, and give it back, for every row.
        with reading():
            return rows_of(self._reading(), named_sql(name), params)

    async def listen(self, heard: Heard) -> None:
        self._heard = heard
        self._watcher = asyncio.create_task(self._watch(), name="sqlite-watch")

    async def ping(self, within_seconds: float) -> None:
        with reading():
            self._reading().execute("SELECT 1 FROM batches LIMIT 1").fetchall()

    async def prune(self, *, rows_max: int = pruning.ROWS_MAX) -> int:
        async with self._turn:
            writer, batches, lock = self._opened()
            await self._begin(lock, _PRUNE_SECONDS)
            with all_or_nothing(writer):
                now = micros(batches.now())
                gone = 0
                for name in pruning.BLOCKS:
                    rows_of(writer, named_sql(name), pruning.params(now, rows_max))
                    gone += writer.changes()
            await self._commit(writer, lock)
            return gone

    # The writer's turn.

    async def _begin(self, lock: WriterLock, acquire_seconds: float) -> None:
        for rest in lock.tries(acquire_seconds):
            await self._aside.rest(rest)

    async def _commit(self, writer: Database, lock: WriterLock) -> None:
        try:
            await self._aside.commit(lambda: writer.execute("COMMIT"))
        except FULL as error:
            # No room for the frame that makes a commit, so there is none.
            raise StoreDown("the disk is full; make room") from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
        lock.pass_on()

    def _opened(self) -> tuple[Database, SqliteBatches, WriterLock]:
        if self._writer is None or self._batches is None or self._lock is None:
            raise StoreDown("the store is not open")
        return self._writer, self._batches, self._lock

    def _reading(self) -> Database:
        if self._reader is None:
            raise StoreDown("the store is not open")
        return self._reader

    # Schema and wake-ups.

    async def _migrate(self, writer: Database, lock: WriterLock) -> None:
        await self._begin(lock, _MIGRATION_SECONDS)
        with all_or_nothing(writer):
            for migration in pending("sqlite", int(writer.execute("PRAGMA user_version").get)):
                writer.execute(migration.sql)
                writer.execute(f"PRAGMA user_version = {migration.number}")
        writer.execute("COMMIT")
        lock.pass_on()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if not self._turn.locked() and self._writer is not None:
                self._notice_others(self._writer)

    def _notice_others(self, writer: Database) -> None:
        """Others' commits change the writer's `data_version`, its own do not; the topics are not known.

        So everybody who waits here is woken, which is worth doing now and then but not for every commit of theirs.
        """
        now = time.monotonic()
        if now - self._looked_at < _POLL_SECONDS:
            return
        self._looked_at = now
        version = writer.execute("PRAGMA data_version").get
        if self._heard is not None and self._seen_version is not None and version != self._seen_version:
            self._heard(None)
        self._seen_version = version


class QueryThreads:
    """Plain reads for people, off the event loop, each thread with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(_QUERY_THREADS, thread_name_prefix="sqlite-query")
        self._own = threading.local()
        self._opened: list[Database] = []

    async def run(self, block: NamedSql, params: Params) -> list[Row]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, block, params)

    def close(self) -> None:
        self._threads.shutdown()
        for database in self._opened:
            database.close()
        self._opened.clear()

    def _run(self, block: NamedSql, params: Params) -> list[Row]:
        database: Database | None = getattr(self._own, "database", None)
        if database is None:
            database = self._own.database = connect_durably(self._path)
            self._opened.append(database)
        return rows_of(database, block, params)
