"""One batch on PostgreSQL: lock and load, decide, write, COMMIT.

Locks are taken in one global order under a short `lock_timeout`. If a lock is not free in that time, the batch is
rolled back and loads again with SKIP LOCKED; only the commands whose records are locked go back to the queue.

Updates and deletes name the version that they replace. A row that is gone or changed is not written. The number of
written rows is checked before COMMIT, so such a batch commits nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.kernel.pages import Choosing, report
from interlock.kernel.record import Key, Pick, Reads, Record, from_micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import (
    CommitUnconfirmed,
    CommitUnknown,
    Loaded,
    LockTimeout,
    StoreDown,
    Transaction,
    WriteConflict,
)
from interlock.kernel.store_state import FRESH
from interlock.kernel.world import Changes
from interlock.store.catalogue import named_sql
from interlock.store.postgres import statements as sql
from interlock.store.postgres.connections import BEGIN, Deadline, Writer
from interlock.store.postgres.driver import LOCKED, PostgresConnection
from interlock.store.statements import KeptImmutables, state_in

# `lock_timeout` bounds the wait for each row; this bounds the wait for all of them.
_LOCKS_SECONDS = 0.5

_WRITE_SECONDS_MIN = 1.0
# The driver would ask the server to cancel a COMMIT that takes longer than this, so it never does.
_NEVER_SECONDS = 86_400.0


class _Held(Exception):
    """Another transaction held a lock for longer than a batch waits for it; this one must be rolled back."""


class Batches:
    """Carries batches on connections whose transaction has begun."""

    def __init__(self) -> None:
        self._types: sql.ColumnTypes = {}
        self._kept = KeptImmutables()

    async def learn_columns(self, session: PostgresConnection) -> None:
        """Read the columns' types, which their values are sent as."""
        rows = await session.fetch(sql.COLUMN_TYPES)
        self._types = {(row[0], row[1]): row[2] for row in rows}

    async def carry(self, writer: Writer, transaction: Transaction, deadline: Deadline) -> Changes:
        """Load, decide, write and COMMIT; returns the changes. If there are none, the transaction is left open."""
        session = writer.session
        try:
            changes = await self.attempt(session, transaction, sql.Lock.WAIT, deadline)
        except _Held:
            await session.execute(f"ROLLBACK; {BEGIN}", timeout=deadline.left)
            try:
                changes = await self.attempt(session, transaction, sql.Lock.SKIP, deadline)
            except _Held as held:
                raise LockTimeout("another session holds a whole table that this batch reads") from held
        if changes:
            writing = sql.write(transaction.batch_id, changes, self._types)
            await write(session, writing, max(_WRITE_SECONDS_MIN, deadline.left))
            await commit(writer, max(_WRITE_SECONDS_MIN, deadline.left))
        return changes

    async def attempt(
        self, session: PostgresConnection, transaction: Transaction, lock: sql.Lock, deadline: Deadline
    ) -> Changes:
        """Load and decide; what there is to write."""
        loaded = await self._load(session, transaction.reads, lock, deadline)
        more = transaction.more(loaded)
        again = await self._load(session, more, lock, deadline, loaded.now) if more else None
        return transaction.decide(again)

    async def _load(
        self,
        session: PostgresConnection,
        reads: Reads,
        lock: sql.Lock,
        deadline: Deadline,
        now: datetime | None = None,
    ) -> Loaded:
        """The first load reads the clock; `now` is what it read, for the second."""
        kept = self._find_kept(reads.see)
        see = [key for key in reads.see if key not in kept]
        records: dict[Key, Record | None] = dict.fromkeys((*reads.own, *see))
        groups = sql.grouped(reads.own, see, lock)
        rows: list[Any] = []
        state = FRESH
        if groups or now is None:
            *rows, (clock, said) = await _locked(session, sql.load(groups), lock, deadline)
            now, state = now or from_micros(clock), state_in(said)
        unreadable: set[Key] = set()
        if not self._place_all(groups, rows, records):
            unreadable |= _place(await _each(session, reads.own, lock, deadline), records)
            unreadable |= _place(await _each(session, see, sql.Lock.NONE, deadline), records)
        held: dict[Key, Record | None] = {}
        if lock is sql.Lock.SKIP:
            missing = [key for key in reads.own if key in records and records[key] is None]
            held = await _each(session, missing, sql.Lock.NONE, deadline)
            unreadable |= _place(held, records)
        records.update(kept)
        picked = [await _choose(session, pick, now, deadline) for pick in reads.picks]
        return Loaded(now, records, picked, frozenset(held), unreadable=frozenset(unreadable), state=state)

    def _place_all(
        self, groups: Sequence[sql.KeyGroup], rows: Sequence[Any], records: dict[Key, Record | None]
    ) -> bool:
        """Store what a load found under its keys, one row per group; False if a row is not the one asked for."""
        for (kind, keys, _), (count, bodies) in zip(groups, rows, strict=True):
            try:
                found = {kind.key_of(record): record for record in kind.decode_all(bodies or "[]")}
            except Unreadable:
                return False
            if len(found) != count or not found.keys() <= set(keys):
                return False  # The row of one record has the body of another.
            records.update(found)
            if kind.immutable:
                for key, record in found.items():
                    self._kept.keep(key, record)
        return True

    def _find_kept(self, keys: Iterable[Key]) -> dict[Key, Record]:
        found: dict[Key, Record] = {}
        for key in keys:
            if key.kind.immutable and (record := self._kept.find(key)) is not None:
                found[key] = record
        return found


async def write(session: PostgresConnection, writing: sql.Writing, seconds: float) -> None:
    """Write a whole batch; `WriteConflict` if a row that it changes is not there as it was."""
    (changed,) = await session.fetch(writing.sql, *writing.values, timeout=seconds)
    if conflicts := writing.conflicts(changed):
        raise WriteConflict(f"a record changed under its owner: {'; '.join(conflicts)}")


async def commit(writer: Writer, seconds: float) -> None:
    """COMMIT, or raise what is known about its outcome.

    Nothing asks the server to cancel it: a COMMIT that is cancelled while it waits for a standby counts as done on
    this side only. One that takes too long is cut off, and so is one whose caller is cancelled.
    """
    session = writer.session
    if session.is_closed():
        raise ConnectionError("the connection was gone before COMMIT was sent")
    writer.warnings.clear()
    committing = asyncio.ensure_future(session.execute("COMMIT", timeout=_NEVER_SECONDS))
    try:
        await asyncio.wait([committing], timeout=seconds)
    finally:
        if not committing.done():
            session.terminate()
            await asyncio.wait([committing])
    error = committing.exception()
    answer = error or committing.result()
    if writer.warnings and (answer == "COMMIT" or session.is_closed()):
        # It happened, and a standby did not confirm it.
        raise CommitUnconfirmed(writer.warnings[-1]) from error
    if answer == "ROLLBACK":
        raise StoreDown("COMMIT was answered with ROLLBACK")
    if answer != "COMMIT" or session.is_in_transaction():
        raise CommitUnknown(f"COMMIT was answered with {answer!r}") from error


async def _locked(
    session: PostgresConnection, load: sql.Statement, lock: sql.Lock, deadline: Deadline
) -> list[Any]:
    """Load under row locks. The next step shows whether the locks or the server are slow."""
    waits = lock is sql.Lock.WAIT
    seconds = min(_LOCKS_SECONDS, deadline.left) if waits else deadline.left
    try:
        return await session.fetch(load.sql, *load.values, timeout=seconds)
    except LOCKED as error:
        raise _Held(str(error)) from error
    except TimeoutError as error:
        if waits:
            raise _Held("the locks took too long") from error
        raise


async def _each(
    session: PostgresConnection, keys: Iterable[Key], lock: sql.Lock, deadline: Deadline
) -> dict[Key, Record | None]:
    """The records of the keys that have a row, read one by one; None if the row holds something else."""
    wanted = {(key.kind.name, key.tenant, key.id): key for key in keys}
    if not wanted:
        return {}
    load = sql.each(wanted.values(), lock)
    found: dict[Key, Record | None] = {}
    for name, tenant, record_id, body in await session.fetch(load.sql, *load.values, timeout=deadline.left):
        key = wanted[name, tenant, record_id]
        try:
            found[key] = key.kind.decode_as(key, body)
        except Unreadable as unreadable:
            report(unreadable)
            found[key] = None
    return found


async def _choose(
    session: PostgresConnection, pick: Pick[Any], now: datetime, deadline: Deadline
) -> tuple[Pick[Any], Sequence[Record]]:
    block, params = named_sql(pick.query), pick.params(now)
    query = block.postgres + (" FOR UPDATE SKIP LOCKED" if pick.own else "")
    choosing = Choosing(pick, now)
    while choosing.asks_for:
        values = block.arguments({**params, "limit": choosing.asks_for})
        said = query if choosing.bytes_max is None else sql.within(query, choosing.bytes_max)
        rows = await session.fetch(said, *values, timeout=deadline.left)
        choosing.take([(row[0],) for row in rows])
    return choosing.picked


def _place(found: Mapping[Key, Record | None], records: dict[Key, Record | None]) -> set[Key]:
    """Put them into their places, where there is none for what holds something else; returns the keys of the latter."""
    records.update(found)
    unreadable = {key for key, record in found.items() if record is None}
    for key in unreadable:
        del records[key]
    return unreadable
