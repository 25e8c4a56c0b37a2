"""SQLite: the embedded default. WAL, `synchronous=FULL`, `BEGIN IMMEDIATE`, several processes on one file.

One connection writes. Its statements are short and run on the event loop; only COMMIT, which waits for
the disk, runs on a thread. Another process may hold the file's one writer lock, so BEGIN is tried again
with a short jitter until the acquire budget is spent: waiting in `busy_timeout` starves (decision 0003).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from interlock.kernel.record import Key, Kind, Params, Reads, Record, from_micros, micros
from interlock.kernel.storage import CommitUnknown, Loaded, LockTimeout, StoreDown, Transaction, WriteConflict
from interlock.kernel.world import Changes
from interlock.store import statements
from interlock.store.contract import Row
from interlock.store.immutable import KeptImmutables
from interlock.store.migrations import pending
from interlock.store.named_sql import named_sql

R = TypeVar("R", bound=Record)

_POLL_SECONDS = 0.05
_BUSY_JITTER_SECONDS = (0.0002, 0.001)
_BROKEN = (
    apsw.CantOpenError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FullError,
    apsw.ReadOnlyError,
)

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class SqliteStore:
    """Records in one SQLite file."""

    lanes = 1

    def __init__(self, path: str | Path, *, clock: Clock = utc_now) -> None:
        self._path = Path(path)
        self._clock = clock
        self._last_now = from_micros(0)
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._kept = KeptImmutables()
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="sqlite-commit")
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="sqlite-query")
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._writer = _connect(self._path)
            await self._migrate(self._writer)
            self._reader = _connect(self._path)
        except _BROKEN as error:
            raise StoreDown(f"cannot open {self._path}: {error}") from error

    async def close(self) -> None:
        if self._listener:
            self._listener.cancel()
        self._commits.shutdown()
        self._queries.shutdown()
        for connection in (self._reader, self._writer):
            if connection:
                connection.close()
        self._reader = self._writer = None

    async def transact(self, transaction: Transaction) -> None:
        writer = self._opened(self._writer)
        await self._begin(writer, transaction.acquire_seconds)
        try:
            changes = self._decide(writer, transaction)
            if changes:
                self._write(writer, transaction.batch_id, changes)
        except BaseException as error:
            _roll_back(writer)
            raise _named(error) from error
        if changes:
            await self._commit(writer)
        else:
            _roll_back(writer)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        writer = self._opened(self._writer)
        await self._begin(writer, within_seconds)
        try:
            return bool(writer.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchall())
        finally:
            _roll_back(writer)

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        return self._select(self._opened(self._reader), kind, tenant, record_id)

    async def query(self, name: str, params: Params) -> list[Row]:
        reader = self._opened(self._reader)

        def run() -> list[Row]:
            return list(reader.execute(named_sql(name).sql, dict(params)).fetchall())

        return await asyncio.get_running_loop().run_in_executor(self._queries, run)

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        self._listener = asyncio.create_task(self._watch(heard))

    async def ping(self, within_seconds: float) -> None:
        try:
            self._opened(self._reader).execute("SELECT 1 FROM batches LIMIT 1").fetchall()
        except apsw.Error as error:
            raise StoreDown(f"the database file does not answer: {error}") from error

    # One batch.

    async def _begin(self, writer: apsw.Connection, acquire_seconds: float) -> None:
        deadline = time.monotonic() + acquire_seconds
        while True:
            try:
                writer.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                if time.monotonic() >= deadline:
                    raise LockTimeout("another process holds the database's writer lock") from None
            except _BROKEN as error:
                raise StoreDown(f"the database file does not answer: {error}") from error
            await asyncio.sleep(random.uniform(*_BUSY_JITTER_SECONDS))

    def _decide(self, writer: apsw.Connection, transaction: Transaction) -> Changes:
        now = self._now(writer)
        loaded = self._load(writer, transaction.reads, now)
        more = transaction.more(loaded)
        if more:
            again = self._load(writer, more, now)
            loaded = Loaded(now, {**loaded.records, **again.records}, (*loaded.picked, *again.picked))
        return transaction.decide(loaded)

    def _now(self, writer: apsw.Connection) -> datetime:
        """Never earlier than any batch before, in whichever process it ran."""
        row = writer.execute("SELECT at FROM batches ORDER BY seq DESC LIMIT 1").fetchall()
        last = from_micros(int(row[0][0])) if row else self._last_now
        self._last_now = max(self._clock(), last, self._last_now)
        return self._last_now

    def _load(self, writer: apsw.Connection, reads: Reads, now: datetime) -> Loaded:
        records = {key: self._select(writer, *key) for key in (*reads.own, *reads.see)}
        picked: list[tuple[Any, Sequence[Record]]] = []
        for pick in reads.picks:
            params = {**pick.params(now), "limit": pick.limit}
            rows = writer.execute(named_sql(pick.query).sql, params).fetchall()
            picked.append((pick, [pick.kind.decode(row[0]) for row in rows]))
        return Loaded(now, records, picked)

    def _select(self, connection: apsw.Connection, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        key = Key(kind, tenant, record_id)
        kept = self._kept.find((key,))
        if kept:
            return cast("R", kept[key])
        rows = connection.execute(statements.select_one(kind), (tenant, record_id)).fetchall()
        record = kind.decode(rows[0][0]) if rows else None
        if record is not None:
            self._kept.keep(key, record)
        return record

    def _write(self, writer: apsw.Connection, batch_id: str, changes: Changes) -> None:
        writer.execute("INSERT INTO batches (id, at) VALUES (?, ?)", (batch_id, micros(self._last_now)))
        for kind, record in changes.inserts:
            writer.execute(statements.insert_one(kind), statements.row(kind, record))
        for update in changes.updates:
            row = statements.row(update.kind, update.record)
            writer.execute(statements.update_one(update.kind), (*row, update.version_before))
            self._expect_one(writer)
        for key, version in changes.deletes:
            writer.execute(statements.delete_one(key.kind), (key.tenant, key.id, version))
            self._expect_one(writer)

    def _expect_one(self, writer: apsw.Connection) -> None:
        if writer.changes() != 1:
            raise WriteConflict("a record changed under its owner")

    async def _commit(self, writer: apsw.Connection) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._commits, writer.execute, "COMMIT")
        except apsw.Error as error:
            _roll_back(writer)
            raise CommitUnknown(str(error)) from error

    # Schema and wake-ups.

    async def _migrate(self, writer: apsw.Connection) -> None:
        await self._begin(writer, 30.0)
        try:
            for migration in pending("sqlite", _schema(writer)):
                writer.execute(migration.sql)
                writer.execute(f"PRAGMA user_version = {migration.number}")
            writer.execute("COMMIT")
        except BaseException:
            _roll_back(writer)
            raise

    async def _watch(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        """Another process's commit changes `data_version`; which topics it woke is not known."""
        reader = self._opened(self._reader)
        seen: int | None = None
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            version = reader.pragma("data_version")
            if seen is not None and version != seen:
                heard(None)
            seen = version

    def _opened(self, connection: apsw.Connection | None) -> apsw.Connection:
        if connection is None:
            raise StoreDown("the store is not open")
        return connection


def _connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.set_busy_timeout(0)
    connection.execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16000")
    return connection


def _schema(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version") or 0)


def _roll_back(writer: apsw.Connection) -> None:
    if writer.in_transaction:
        writer.execute("ROLLBACK")


def _named(error: BaseException) -> BaseException:
    if isinstance(error, apsw.ConstraintError):
        return WriteConflict(str(error))
    if isinstance(error, _BROKEN):
        return StoreDown(f"the database file does not answer: {error}")
    return error
