"""PostgreSQL: any number of servers on one database. READ COMMITTED, explicit row locks, unique keys.

A batch is two or three round trips (docs/decisions/0032): BEGIN with one statement that locks and loads
everything, a second load if commands ask for more, and one that writes everything with COMMIT. Locks are
taken in one global order under a short `lock_timeout`; if one outlasts it the batch loads again with SKIP
LOCKED, and only the commands whose records are held go back to the queue.

A COMMIT whose answer is lost is settled by the batch id: each batch inserts it with its writes, and
`committed` inserts it again, marked abandoned. That insert waits for the old transaction; then either it
collides (the batch committed) or it wins (the batch never can).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import (
    CommitUnconfirmed,
    CommitUnknown,
    LockTimeout,
    StoreDown,
    Transaction,
    WriteConflict,
)
from interlock.kernel.world import Changes
from interlock.store import postgres_sql as sql
from interlock.store import pruning
from interlock.store.clock import utc_now
from interlock.store.contract import Row
from interlock.store.migrations import pending
from interlock.store.named_sql import named_sql
from interlock.store.postgres_batch import Held, PostgresBatches
from interlock.store.postgres_causes import why
from interlock.store.postgres_driver import LOCKED, MISCOUNTED, SERVER_SAID_NO, Session
from interlock.store.postgres_hints import Hints
from interlock.store.postgres_pipeline import COMMIT, ROLLBACK, Asked, Lost, NotSent, Pipeline
from interlock.store.postgres_place import expect_store
from interlock.store.postgres_wire import Connections, Deadline

R = TypeVar("R", bound=Record)

_COMMIT_SECONDS_MIN = 1.0
_OPENING_SECONDS = 30.0
# To build an index of a large table takes as long as it takes.
_MIGRATION_SECONDS = 3600.0
_MIGRATION_LOCK = 7_165_101
# The second takes bytes as they come.
_ENCODINGS = ("UTF8", "SQL_ASCII")


class PostgresStore:
    """Records in one PostgreSQL database."""

    def __init__(self, url: str, *, lanes: int = 2, io_seconds: float = 2.0, makes: bool = True) -> None:
        """Tables that are not there are made by `open`, unless `makes` is False."""
        self.lanes = lanes
        self._url = url
        self._makes = makes
        self._io_seconds = io_seconds
        self._connections = Connections(url, lanes=lanes, io_seconds=io_seconds)
        self._hints = Hints(self._connections)
        self._batches = PostgresBatches()

    async def open(self) -> None:
        self._connections.open()
        try:
            async with self._connections.fresh(_OPENING_SECONDS) as session:
                await _expect_every_text(session)
                await self._migrate(session)
                await self._batches.learn_columns(session)
        except SERVER_SAID_NO as error:
            raise StoreDown(why(error, self._url)) from error

    async def close(self) -> None:
        await self._hints.close()
        await self._connections.close()

    async def transact(self, transaction: Transaction) -> None:
        deadline = Deadline(self._io_seconds)
        async with self._connections.writer() as writer:
            try:
                changes = await self._batches.attempt(writer, transaction, sql.Lock.WAIT, deadline)
            except Held:
                changes = await self._try_skipping(writer, transaction, deadline)
            if changes:
                writing = self._batches.writing(transaction.batch_id, changes)
                await _commit(writer, writing, max(_COMMIT_SECONDS_MIN, deadline.left))
                self._hints.tell(changes.wakes)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        async with asyncio.timeout(within_seconds), self._connections.fresh(within_seconds) as session:
            try:
                await session.execute(f"SET lock_timeout = {int(within_seconds * 1000)}")
                won = await session.fetchval(sql.ABANDON, batch_id)
                return not won and not await session.fetchval(sql.IS_ABANDONED, batch_id)
            except LOCKED as error:
                raise LockTimeout("the lost transaction is still open") from error

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        rows = await self._connections.read(sql.select_one(kind), (tenant, record_id))
        return kind.decode_as(kind.key(tenant, record_id), rows[0][0]) if rows else None

    async def query(self, name: str, params: Params, *, bytes_max: int | None = None) -> list[Row]:
        block = named_sql(name)
        found = block.postgres if bytes_max is None else sql.within(block.postgres, bytes_max)
        rows = await self._connections.read(found, block.arguments(params))
        return [tuple(row) if bytes_max is None else tuple(row)[:-1] for row in rows]

    async def glance(self, name: str, params: Params) -> list[Row]:
        return await self.query(name, params)

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        self._hints.start(heard)

    async def ping(self, within_seconds: float) -> None:
        await self._connections.ping(within_seconds)

    async def prune(self, *, rows_max: int = pruning.ROWS_MAX) -> int:
        rows = await self._connections.read(f"SELECT {sql.CLOCK}", ())
        values = pruning.params(rows[0][0], rows_max)
        gone = 0
        for name in pruning.BLOCKS:
            block = named_sql(name)
            arguments = block.arguments(values)
            try:
                deleting = f"{block.postgres} RETURNING 1"
                gone += len(await self._connections.read(deleting, arguments, lock_seconds=0))
            except LockBusy as held:
                raise LockTimeout("somebody uses a row that could go; prune again later") from held
        return gone

    async def _try_skipping(self, writer: Pipeline, transaction: Transaction, deadline: Deadline) -> Changes:
        if writer.is_busy:
            await self._connections.interrupt(writer, deadline)
        await writer.ask(ROLLBACK, seconds=deadline.left)
        try:
            return await self._batches.attempt(writer, transaction, sql.Lock.SKIP, deadline)
        except Held as held:
            raise LockTimeout("somebody holds a whole table that this batch reads") from held

    async def _migrate(self, session: Session) -> None:
        await session.execute("BEGIN")
        # Whoever comes first migrates; the others wait for it here, longer than for a row.
        await session.execute(f"SET LOCAL lock_timeout = {int(_MIGRATION_SECONDS * 1000)}")
        await session.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK, timeout=_MIGRATION_SECONDS)
        is_there = await expect_store(session, self._url, makes=self._makes)
        for migration in pending("postgres", await _schema(session) if is_there else 0):
            await session.execute(migration.sql, timeout=_MIGRATION_SECONDS)
            await session.execute(
                "INSERT INTO schema_versions (number, name, applied_at) VALUES ($1, $2, $3)",
                migration.number,
                migration.name,
                micros(utc_now()),
            )
        await session.execute("COMMIT", timeout=_MIGRATION_SECONDS)


async def _commit(writer: Pipeline, writing: Asked, seconds: float) -> None:
    """Write and COMMIT in one go.

    Nothing asks the server to cancel it: a COMMIT that is cancelled while it waits for a standby counts as done on
    this side only. It failed for certain if nothing was sent, or if its transaction can only be rolled back.
    """
    try:
        answers = await writer.ask(writing, COMMIT, seconds=seconds)
    except (NotSent, ValueError):
        raise
    except Exception as error:
        # A warning that came behind the writes is COMMIT's: it happened, and a standby did not confirm it.
        if isinstance(error, Lost) and error.answered and error.warning:
            raise CommitUnconfirmed(error.warning) from error
        if not writer.has_failed:
            raise CommitUnknown(f"{type(error).__name__}: {error}") from error
        if isinstance(error, MISCOUNTED):
            raise WriteConflict("a record changed under its owner") from error
        raise
    *_, committed = answers
    if committed.tag == "ROLLBACK":
        raise StoreDown("COMMIT was answered with ROLLBACK")
    if committed.tag != "COMMIT" or writer.is_in_transaction:
        raise CommitUnknown(f"COMMIT was answered with {committed.tag}")
    if committed.warning:
        raise CommitUnconfirmed(committed.warning)


async def _expect_every_text(session: Session) -> None:
    encoding = await session.fetchval("SHOW server_encoding")
    if encoding not in _ENCODINGS:
        raise StoreDown(
            f"the database keeps text as {encoding}, which not every text can be kept as; use one made with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def _schema(session: Session) -> int:
    return int(await session.fetchval(sql.SCHEMA_VERSION))
