"""PostgreSQL: any number of servers on one database. READ COMMITTED, explicit row locks, unique keys.

A batch is four round trips: BEGIN, one statement that locks and loads everything, one that writes
everything, COMMIT. Locks are taken in one global order under a short `lock_timeout`; if one outlasts it
the batch loads again with SKIP LOCKED, and only the commands whose records are held go back to the queue.

A COMMIT whose answer is lost is settled by the batch id: each batch inserts it with its writes, and
`committed` inserts it again, marked abandoned. That insert waits for the old transaction; then either it
collides (the batch committed) or it wins (the batch never can).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from interlock.kernel.record import Key, Kind, Params, Pick, Reads, Record, from_micros, micros
from interlock.kernel.storage import CommitUnknown, Loaded, LockTimeout, StoreDown, Transaction, WriteConflict
from interlock.kernel.world import Changes
from interlock.store import postgres_sql as sql
from interlock.store.contract import Row
from interlock.store.immutable import KeptImmutables
from interlock.store.migrations import pending
from interlock.store.named_sql import named_sql
from interlock.store.postgres_wire import GONE, LOCKED, Connections, Listener, Written
from interlock.store.sqlite import utc_now

R = TypeVar("R", bound=Record)

_IO_SECONDS_MIN = 0.25
_MIGRATION_LOCK = 7_165_101
_NOTE_BYTES_MAX = 7000


class PostgresStore:
    """Records in one PostgreSQL database."""

    def __init__(self, url: str, *, lanes: int = 2, io_seconds: float = 2.0) -> None:
        self.lanes = lanes
        self._io_seconds = io_seconds
        self._connections = Connections(url, lanes=lanes, io_seconds=io_seconds)
        self._listener = Listener(self._connections)
        self._types: sql.ColumnTypes = {}
        self._kept = KeptImmutables()

    async def open(self) -> None:
        async with self._connections.fresh(30.0) as connection:
            await self._migrate(connection)
            rows = await connection.fetch(sql.COLUMN_TYPES)
        self._types = {(row[0], row[1]): row[2] for row in rows}

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()

    async def transact(self, transaction: Transaction) -> None:
        seconds = max(_IO_SECONDS_MIN, min(transaction.acquire_seconds, self._io_seconds))
        async with self._connections.writer(seconds) as writer:
            try:
                await self._attempt(writer.connection, transaction, sql.WAIT, seconds)
            except LOCKED:
                await self._try_skipping(writer.connection, transaction, seconds)
            await self._commit(writer)

    async def committed(self, batch_id: str, within_seconds: float) -> bool:
        async with self._connections.fresh(within_seconds) as connection:
            try:
                await connection.execute(f"SET lock_timeout = {int(within_seconds * 1000)}")
                won = await connection.fetchval(sql.ABANDON, batch_id, timeout=within_seconds)
                return not won and not await connection.fetchval(sql.IS_ABANDONED, batch_id)
            except LOCKED as error:
                raise LockTimeout("the lost transaction is still open") from error

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        statement = sql.load((), (kind.key(tenant, record_id),), sql.PLAIN)
        rows = await self._connections.read(statement.sql, statement.arguments)
        return next((kind.decode(body) for name, body in rows if name), None)

    async def query(self, name: str, params: Params) -> list[Row]:
        block = named_sql(name)
        rows = await self._connections.read(block.dollar_sql, [params[p] for p in block.positional])
        return [tuple(row) for row in rows]

    async def listen(self, heard: Callable[[frozenset[str] | None], None]) -> None:
        self._listener.start(heard)

    async def ping(self, within_seconds: float) -> None:
        await self._connections.read("SELECT 1", (), seconds=within_seconds)

    # One batch.

    async def _try_skipping(self, connection: Any, transaction: Transaction, seconds: float) -> None:
        await connection.execute("ROLLBACK")
        try:
            await self._attempt(connection, transaction, sql.SKIP, seconds)
        except LOCKED as error:
            await connection.execute("ROLLBACK")
            raise LockTimeout("another transaction holds a record that this batch writes") from error

    async def _attempt(
        self, connection: Any, transaction: Transaction, lock: sql.Lock, seconds: float
    ) -> None:
        await connection.execute("BEGIN", timeout=seconds)
        loaded = await self._load(connection, transaction.reads, lock, seconds)
        more = transaction.more(loaded)
        if more:
            loaded = _joined(loaded, await self._load(connection, more, lock, seconds))
        changes = transaction.decide(loaded)
        if changes:
            await self._write(connection, transaction.batch_id, changes, seconds)
        else:
            await connection.execute("ROLLBACK", timeout=seconds)

    async def _load(self, connection: Any, reads: Reads, lock: sql.Lock, seconds: float) -> Loaded:
        kept = self._kept.find(reads.see)
        see = tuple(key for key in reads.see if key not in kept)
        statement = sql.load(reads.own, see, lock)
        rows = await connection.fetch(statement.sql, *statement.arguments, timeout=seconds)
        now = from_micros(int(rows[-1][1]))
        found = self._decode(rows[:-1], (*reads.own, *see))
        busy = await self._held(connection, reads.own, found, lock, seconds)
        absent = dict.fromkeys((*reads.own, *see))
        picked = [(pick, await self._choose(connection, pick, now, seconds)) for pick in reads.picks]
        records = {key: None for key in absent if key not in busy} | found | kept
        return Loaded(now, records, picked, busy)

    def _decode(self, rows: Sequence[Any], keys: Sequence[Key]) -> dict[Key, Record]:
        kinds = {key.kind.name: key.kind for key in keys}
        found: dict[Key, Record] = {}
        for name, body in rows:
            record = kinds[name].decode(body)
            key = kinds[name].key_of(record)
            found[key] = record
            self._kept.keep(key, record)
        return found

    async def _held(
        self, connection: Any, own: Sequence[Key], found: dict[Key, Record], lock: sql.Lock, seconds: float
    ) -> frozenset[Key]:
        """Which owned keys exist but were skipped because somebody else holds them."""
        missing = [key for key in own if key not in found]
        if lock != sql.SKIP or not missing:
            return frozenset()
        statement = sql.existing(missing)
        rows = await connection.fetch(statement.sql, *statement.arguments, timeout=seconds)
        return frozenset(self._decode(rows[:-1], missing))

    async def _choose(self, connection: Any, pick: Pick[Any], now: Any, seconds: float) -> list[Record]:
        block = named_sql(pick.query)
        values = {**pick.params(now), "limit": pick.limit}
        suffix = " FOR UPDATE SKIP LOCKED" if pick.own else ""
        arguments = [values[name] for name in block.positional]
        rows = await connection.fetch(block.dollar_sql + suffix, *arguments, timeout=seconds)
        return [pick.kind.decode(row[0]) for row in rows]

    async def _write(self, connection: Any, batch_id: str, changes: Changes, seconds: float) -> None:
        note = self._note(changes.wakes)
        statement = sql.write(batch_id, changes, self._types, self._listener.channel, note)
        row = await connection.fetchrow(statement.sql, *statement.arguments, timeout=seconds)
        if row[0] != sql.rows_expected(changes):
            raise WriteConflict("a record changed under its owner")

    def _note(self, wakes: frozenset[str]) -> str | None:
        if not wakes:
            return None
        note = "\n".join((self._listener.origin, *sorted(wakes)))
        return note if len(note.encode()) <= _NOTE_BYTES_MAX else self._listener.origin

    async def _commit(self, writer: Written) -> None:
        if not writer.connection.is_in_transaction():
            return
        try:
            await writer.connection.execute("COMMIT", timeout=self._io_seconds)
        except (asyncpg.PostgresError, *GONE) as error:
            writer.broken = True
            raise CommitUnknown(str(error)) from error
        if writer.warned:
            raise CommitUnknown(writer.warned)

    async def _migrate(self, connection: Any) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
            current = await _schema(connection)
            for migration in pending("postgres", current):
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO schema_versions (number, name, applied_at) VALUES ($1, $2, $3)",
                    migration.number, migration.name, micros(utc_now()),
                )  # fmt: skip


async def _schema(connection: Any) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_versions')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(number), 0) FROM schema_versions"))


def _joined(first: Loaded, second: Loaded) -> Loaded:
    return Loaded(
        max(first.now, second.now),
        {**first.records, **second.records},
        (*first.picked, *second.picked),
        first.busy | second.busy,
    )
