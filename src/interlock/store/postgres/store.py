"""The store contract on PostgreSQL.

A batch is four or five statements (docs/decisions/0032): BEGIN, one that locks and loads everything, a second load if
commands ask for more, one that writes everything, and COMMIT. `batch.py` runs it.

If the answer to COMMIT is lost, the batch id settles it. Each batch inserts its id with its writes, and `committed`
inserts the same id again, marked abandoned. That insert waits for the old transaction. If it collides, the batch
committed; if it succeeds, the batch can never commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import LockTimeout, Row, StoreDown, Transaction
from interlock.kernel.store_state import StoreState
from interlock.store import statements
from interlock.store.catalogue import named_sql
from interlock.store.clock import utc_now
from interlock.store.migrations import pending
from interlock.store.postgres import epoch
from interlock.store.postgres import statements as sql
from interlock.store.postgres.batch import Batches
from interlock.store.postgres.connections import Connections, Deadline
from interlock.store.postgres.driver import LOCKED, SERVER_SAID_NO, Session
from interlock.store.postgres.hints import Hints
from interlock.store.postgres.place import expect_store, why

R = TypeVar("R", bound=Record)

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
        self._batches = Batches()

    async def open(self) -> None:
        self._connections.open()
        try:
            async with self._connections.fresh(_OPENING_SECONDS) as session:
                await self._connections.expect_own_backend(session)
                await _expect_every_text(session)
                await self._migrate(session)
                await self._batches.learn_columns(session)
                await epoch.notice_another_origin(session)
        except SERVER_SAID_NO as error:
            raise StoreDown(why(error, self._url)) from error

    async def close(self) -> None:
        await self._hints.close()
        await self._connections.close()

    async def transact(self, transaction: Transaction) -> None:
        deadline = Deadline(self._io_seconds)
        async with self._connections.writer() as writer:
            changes = await self._batches.carry(writer, transaction, deadline)
        if changes:
            self._hints.tell(changes.wakes)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        async with asyncio.timeout(within_seconds), self._connections.fresh(within_seconds) as session:
            try:
                await session.execute(f"SET lock_timeout = {int(within_seconds * 1000)}")
                won = await session.fetchval(sql.ABANDON, batch_id)
                return not won and not await session.fetchval(sql.IS_ABANDONED, batch_id)
            except LOCKED as error:
                raise LockTimeout("the lost transaction is still open") from error

    async def raise_epoch(self, why: str) -> StoreState:
        async with self._connections.fresh(_OPENING_SECONDS) as session:
            return await epoch.raise_epoch(session, why)

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

    async def prune(self, *, rows_max: int = statements.PRUNED_MAX) -> int:
        rows = await self._connections.read(f"SELECT {sql.CLOCK}", ())
        values = statements.prune_params(rows[0][0], rows_max)
        gone = 0
        for name in statements.PRUNE_BLOCKS:
            block = named_sql(name)
            arguments = block.arguments(values)
            try:
                deleting = f"{block.postgres} RETURNING 1"
                gone += len(await self._connections.read(deleting, arguments, lock_seconds=0))
            except LockBusy as held:
                raise LockTimeout("somebody uses a row that could go; prune again later") from held
        return gone

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


async def _expect_every_text(session: Session) -> None:
    encoding = await session.fetchval("SHOW server_encoding")
    if encoding not in _ENCODINGS:
        raise StoreDown(
            f"the database keeps text as {encoding}, which not every text can be kept as; use one made with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def _schema(session: Session) -> int:
    return int(await session.fetchval(sql.SCHEMA_VERSION))
