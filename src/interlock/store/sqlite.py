"""SQLite: the embedded default. WAL, `synchronous=FULL`, `BEGIN IMMEDIATE`, several processes on one file.

One connection writes. Its statements are short and run on the event loop; only COMMIT, which waits for
the disk, runs on a thread (decisions 0003 and 0026). Another process may hold the file's one writer lock, so BEGIN
is tried again with a short jitter until the given time is over: waiting in `busy_timeout` starves.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.storage import CommitUnknown, LockTimeout, StoreDown, Transaction
from interlock.store import pruning
from interlock.store.clock import Clock, utc_now
from interlock.store.committing import Committing
from interlock.store.contract import Row
from interlock.store.migrations import pending
from interlock.store.named_sql import named_sql
from interlock.store.sqlite_batch import SqliteBatches, select
from interlock.store.sqlite_driver import (
    BROKEN,
    BUSY,
    FAILED,
    FULL,
    Database,
    all_or_nothing,
    connect_durably,
    reading,
    roll_back,
    try_to_begin,
)
from interlock.store.turns import Turns

R = TypeVar("R", bound=Record)
Heard = Callable[[frozenset[str] | None], None]

_POLL_SECONDS = 0.05
_BUSY_JITTER_SECONDS = (0.0002, 0.001)
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
        self._commits = Committing()
        self._queries = QueryThreads(self._path)
        self._turns = Turns(self._path)
        self._heard: Heard | None = None
        self._seen_version: int | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = await asyncio.to_thread(connect_durably, self._path)
            self._batches = SqliteBatches(self._writer, self._clock)
            await self._migrate(self._writer)
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
        await self._commits.close()
        await asyncio.to_thread(self._queries.close)
        for database in (self._reader, self._writer):
            if database:
                database.close()
        self._turns.close()
        self._reader = self._writer = self._batches = None

    async def transact(self, transaction: Transaction) -> None:
        async with self._turn:
            writer, batches = self._opened()
            await self._begin(writer, transaction.acquire_seconds)
            self._notice_others(writer)
            with all_or_nothing(writer):
                has_changes = batches.decide_and_write(transaction)
            if has_changes:
                await self._commit(writer)
            else:
                roll_back(writer)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        """Settled by a write: it also overwrites what a COMMIT that failed half-way left in the log."""
        async with self._turn:
            writer, batches = self._opened()
            await self._begin(writer, within_seconds)
            with all_or_nothing(writer):
                never = batches.abandon(batch_id)
            try:
                await self._commit(writer)
            except CommitUnknown as error:
                raise StoreDown(f"the database file does not take writes: {error}") from error
            return not never

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        with reading():
            return select(self._reading().cursor(), kind, tenant, record_id)

    async def query(self, name: str, params: Params) -> list[Row]:
        with reading():
            return await self._queries.run(named_sql(name).sql, params)

    async def glance(self, name: str, params: Params) -> list[Row]:
        # A thread would take the interpreter from the event loop, and give it back, for every row.
        with reading():
            return list(self._reading().execute(named_sql(name).sql, dict(params)).fetchall())

    async def listen(self, heard: Heard) -> None:
        self._heard = heard
        self._watcher = asyncio.create_task(self._watch(), name="sqlite-watch")

    async def ping(self, within_seconds: float) -> None:
        with reading():
            self._reading().execute("SELECT 1 FROM batches LIMIT 1").fetchall()

    async def prune(self, *, rows_max: int = pruning.ROWS_MAX) -> int:
        async with self._turn:
            writer, batches = self._opened()
            await self._begin(writer, _BUSY_JITTER_SECONDS[1])
            with all_or_nothing(writer):
                now = micros(batches.now())
                gone = 0
                for block in pruning.BLOCKS:
                    writer.execute(named_sql(block).sql, pruning.params(now, rows_max))
                    gone += writer.changes()
            await self._commit(writer)
            return gone

    # The writer's turn.

    async def _begin(self, writer: Database, acquire_seconds: float) -> None:
        deadline = time.monotonic() + acquire_seconds
        while True:
            try:
                roll_back(writer)
                try_to_begin(writer)
                return
            except BUSY:
                if time.monotonic() >= deadline:
                    raise LockTimeout("another process holds the database's writer lock") from None
            except BROKEN as error:
                raise StoreDown(f"the database file does not answer: {error}") from error
            await asyncio.sleep(random.uniform(*_BUSY_JITTER_SECONDS))

    async def _commit(self, writer: Database) -> None:
        try:
            await self._commits.run(lambda: writer.execute("COMMIT"))
        except FULL as error:
            # No room for the frame that makes a commit, so there is none.
            raise StoreDown("the disk is full; make room") from error
        except Exception as error:
            raise CommitUnknown(str(error)) from error
        self._turns.pass_on()

    def _opened(self) -> tuple[Database, SqliteBatches]:
        if self._writer is None or self._batches is None:
            raise StoreDown("the store is not open")
        return self._writer, self._batches

    def _reading(self) -> Database:
        if self._reader is None:
            raise StoreDown("the store is not open")
        return self._reader

    # Schema and wake-ups.

    async def _migrate(self, writer: Database) -> None:
        await self._begin(writer, _MIGRATION_SECONDS)
        with all_or_nothing(writer):
            for migration in pending("sqlite", int(writer.execute("PRAGMA user_version").get)):
                writer.execute(migration.sql)
                writer.execute(f"PRAGMA user_version = {migration.number}")
        writer.execute("COMMIT")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if not self._turn.locked() and self._writer is not None:
                self._notice_others(self._writer)

    def _notice_others(self, writer: Database) -> None:
        """Others' commits change the writer's `data_version`, its own do not; the topics are not known."""
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

    async def run(self, sql: str, params: Params) -> list[Row]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, sql, params)

    def close(self) -> None:
        self._threads.shutdown()
        for database in self._opened:
            database.close()
        self._opened.clear()

    def _run(self, sql: str, params: Params) -> list[Row]:
        database: Database | None = getattr(self._own, "database", None)
        if database is None:
            database = self._own.database = connect_durably(self._path)
            self._opened.append(database)
        return list(database.execute(sql, dict(params)).fetchall())
