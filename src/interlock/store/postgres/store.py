"""The store contract on PostgreSQL.

A batch is four or five statements (docs/decisions/0032): BEGIN, one that locks and loads everything, a second load if
commands ask for more, one that writes everything, and COMMIT. `batch.py` runs it.

If the answer to COMMIT is lost, the batch id settles it. Each batch inserts its id with its writes, and `committed`
inserts the same id again, marked abandoned. That insert waits for the old transaction. If it collides, the batch
committed; if it succeeds, the batch can never commit.

Fences: a server that opens the store compares the cluster, its timeline and the database with the last known ones, and
raises the epoch if they differ. A failover or a recovery to a point in time starts another timeline; `pg_restore` and
a template copy make another database. Values that an ordinary role may not read are left out of the comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from interlock.kernel.clock import utc_now
from interlock.kernel.record import Kind, Params, Record, micros
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import LockTimeout, Row, StoreDown, Transaction
from interlock.kernel.store_state import StoreState, raised_floor
from interlock.store import statements
from interlock.store.catalogue import named_sql, pending, steps
from interlock.store.postgres import statements as sql
from interlock.store.postgres.batch import Batches
from interlock.store.postgres.connections import Connections, Deadline
from interlock.store.postgres.driver import LOCKED, SERVER_SAID_NO, PostgresConnection
from interlock.store.postgres.place import expect_store, why
from interlock.store.statements import READ_STATE, state_of

R = TypeVar("R", bound=Record)

log = logging.getLogger(__name__)

_OPENING_SECONDS = 30.0
# Building an index of a large table may take long.
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
                await notice_another_origin(session)
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
            return await raise_epoch(session, why)

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
                raise LockTimeout("another session uses a row that could go; prune again later") from held
        return gone

    async def _migrate(self, session: PostgresConnection) -> None:
        await session.execute("BEGIN")
        # The first server migrates; the others wait for it here, longer than for a row.
        await session.execute(f"SET LOCAL lock_timeout = {int(_MIGRATION_SECONDS * 1000)}")
        await session.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK, timeout=_MIGRATION_SECONDS)
        is_there = await expect_store(session, self._url, makes=self._makes)
        waiting = pending("postgres", await _schema(session) if is_there else 0)
        for step in steps(waiting, from_scratch=not is_there):
            await session.execute(step.sql, timeout=_MIGRATION_SECONDS)
            if step.ends:
                await session.execute(
                    "INSERT INTO schema_versions (number, name, applied_at) VALUES ($1, $2, $3)",
                    step.ends.number,
                    step.ends.name,
                    micros(utc_now()),
                )
        await session.execute("COMMIT", timeout=_MIGRATION_SECONDS)


async def _expect_every_text(session: PostgresConnection) -> None:
    encoding = await session.fetchval("SHOW server_encoding")
    if encoding not in _ENCODINGS:
        raise StoreDown(
            f"the database keeps text as {encoding}, which not every text can be kept as; use one made with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def _schema(session: PostgresConnection) -> int:
    return int(await session.fetchval(sql.SCHEMA_VERSION))


_ORIGIN = (
    "SELECT format('system %s, timeline %s, database %s', (SELECT system_identifier FROM pg_control_system()), "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8), "
    "(SELECT oid FROM pg_database WHERE datname = current_database()))"
)
_KNOWN_ORIGIN = "SELECT origin FROM store_state WHERE id = 1"
_SET_ORIGIN = "UPDATE store_state SET origin = $1 WHERE id = 1 AND origin IS NOT DISTINCT FROM $2 RETURNING 1"
_RAISE = (
    "UPDATE store_state SET epoch = epoch + 1, fence_floor = $1, raised_at = $2, raised_why = $3 WHERE id = 1"
)


async def raise_epoch(session: PostgresConnection, why: str) -> StoreState:
    """Make every fence from the next batch on greater than any before."""
    await session.execute("BEGIN")
    raised = await _raise(session, why)
    await session.execute("COMMIT")
    return raised


async def notice_another_origin(session: PostgresConnection) -> None:
    """Raise the epoch if this is not the database that the store was in. Of several servers one does it."""
    try:
        origin = str(await session.fetchval(_ORIGIN))
    except SERVER_SAID_NO:
        return  # An ordinary role may not read it here.
    known = await session.fetchval(_KNOWN_ORIGIN)
    if known == origin:
        return
    await session.execute("BEGIN")
    is_mine = await session.fetchval(_SET_ORIGIN, origin, known)
    if is_mine and known is not None:
        await _raise(session, f"the database was in {known}, and is in {origin}")
    await session.execute("COMMIT")


async def _raise(session: PostgresConnection, why: str) -> StoreState:
    rows = await session.fetch(f"{READ_STATE} FOR UPDATE")
    clock = int(await session.fetchval(f"SELECT {sql.CLOCK}") or micros(utc_now()))
    floor = raised_floor(state_of(tuple(rows[0])).fence_floor, clock)
    await session.execute(_RAISE, floor, clock, why)
    rows = await session.fetch(READ_STATE)
    return state_of(tuple(rows[0]))


_CHANNEL = "interlock"
_LISTENERS = 7_165_103
_LISTEN_IN_COMPANY = f"SELECT pg_advisory_lock_shared({_LISTENERS})"
_ARE_THERE_OTHERS = (
    "SELECT count(*) > 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objsubid = 1 "
    f"AND objid = {_LISTENERS} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TELL = "SELECT pg_notify($1, $2)"
_NOTE_BYTES_MAX = 7000
_NOTES_MAX = 16
_LOOK_SECONDS = 1.0
_RECONNECT_SECONDS = (0.1, 2.0)

Heard = Callable[[frozenset[str] | None], None]


class Hints:
    """Wake-ups between servers, by LISTEN and NOTIFY. A lost one costs time, never work.

    They are sent after the commit, on a connection of their own. A transaction that notifies holds a lock on the whole
    database from COMMIT until its data is on disk, so batches with a NOTIFY would commit one after another
    (docs/decisions/0023).

    Each listening server holds a shared lock, so once a second a server can see whether it is the only one; then it
    sends no hints. A new server announces itself, and receives hints from then on.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._origin = uuid.uuid4().hex
        self._untold: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._teller: PostgresConnection | None = None
        self._others_listen = True

    def start(self, heard: Heard) -> None:
        """Listen until `close`; `heard` is given None whenever hints may have been lost."""
        self._listening = asyncio.create_task(self._listen(heard), name="postgres-listen")

    def tell(self, topics: frozenset[str]) -> None:
        """Tell the other servers soon; topics that come while a note is on its way go with the next one."""
        if not self._others_listen:
            return
        self._untold |= topics
        if self._untold and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(), name="postgres-notify")

    async def close(self) -> None:
        """Send the hints that are left, then stop."""
        if self._telling:
            await self._telling
        if self._listening:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
        if self._teller:
            self._teller.terminate()

    # Telling.

    async def _tell(self) -> None:
        while self._untold:
            notes, self._untold = self._notes(), set()
            try:
                session = await self._open_teller()
                for note in notes:
                    await session.fetchval(_TELL, _CHANNEL, note)
            except Exception as error:  # noqa: BLE001 - the others look by themselves before long
                log.debug("could not tell other servers what changed: %r", error)
                if self._teller:
                    self._teller.terminate()
                self._teller = None

    async def _open_teller(self) -> PostgresConnection:
        if self._teller is None or self._teller.is_closed():
            self._teller = await self._connections.own()
            # A note need not survive a crash, so it does not wait for the disk.
            await self._teller.execute("SET synchronous_commit = off")
        return self._teller

    def _notes(self) -> list[str]:
        """Who woke which topics, or only who, if they are too many to list: then every server looks."""
        notes: list[str] = []
        room = 0
        for topic in sorted(self._untold):
            size = len(topic.encode()) + 1
            if size > room:
                notes.append(self._origin)
                room = _NOTE_BYTES_MAX - len(self._origin)
            notes[-1] += f"\n{topic}"
            room -= size
        return notes if len(notes) <= _NOTES_MAX else [self._origin]

    # Listening.

    async def _listen(self, heard: Heard) -> None:
        """Listen until cancelled; after each gap, report that hints were lost."""
        least, most = _RECONNECT_SECONDS
        pause = least
        while True:
            try:
                session = await self._connections.own()
                pause = least
                try:
                    await self._hear(session, heard)
                finally:
                    session.terminate()
            except Exception as error:  # noqa: BLE001 - hints must come back whatever happened
                log.debug("listening broke off: %r", error)
            self._others_listen = True
            await asyncio.sleep(pause)
            pause = min(most, pause * 2)

    async def _hear(self, session: PostgresConnection, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        heard_at = float("-inf")

        def told(_session: Any, _pid: int, _channel: str, note: str) -> None:
            nonlocal heard_at
            origin, *topics = note.split("\n")
            if origin != self._origin:
                self._others_listen, heard_at = True, loop.time()
                heard(frozenset(topics) or None)

        await session.add_listener(_CHANNEL, told)
        await session.fetchval(_LISTEN_IN_COMPANY)
        await session.fetchval(_TELL, _CHANNEL, self._origin)
        heard(None)
        while not session.is_closed():
            others = bool(await session.fetchval(_ARE_THERE_OTHERS))
            # A new server may have announced itself while this was asked.
            self._others_listen = others or loop.time() - heard_at < _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
