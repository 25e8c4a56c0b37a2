"""One batch on PostgreSQL, from BEGIN up to COMMIT: lock and load, decide, write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.kernel.record import Key, Kind, Pick, Reads, Record, from_micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Transaction, WriteConflict
from interlock.kernel.world import Changes
from interlock.store import postgres_sql as sql
from interlock.store.immutable import KeptImmutables
from interlock.store.named_sql import named_sql
from interlock.store.postgres_driver import LOCKED, Session
from interlock.store.unreadable import Choosing, report

# `lock_timeout` bounds the wait for each row; this bounds the wait for all of them.
_LOCKS_SECONDS = 0.5
_SECONDS_MIN = 0.01


class Held(Exception):
    """Somebody held a lock for longer than a batch waits for it; the transaction must be rolled back."""


class Deadline:
    """A moment, and how long it is until then."""

    def __init__(self, seconds: float) -> None:
        self._at = asyncio.get_running_loop().time() + seconds

    @property
    def left(self) -> float:
        return max(_SECONDS_MIN, self._at - asyncio.get_running_loop().time())


class PostgresBatches:
    """Carries batches on connections that the caller begins with and commits."""

    def __init__(self) -> None:
        self._types: sql.ColumnTypes = {}
        self._kept = KeptImmutables()

    async def learn_columns(self, session: Session) -> None:
        """Read the columns' types, which arrays of their values are sent as."""
        rows = await session.fetch(sql.COLUMN_TYPES)
        self._types = {(row[0], row[1]): row[2] for row in rows}

    async def attempt(
        self, session: Session, transaction: Transaction, lock: sql.Lock, deadline: Deadline
    ) -> Changes:
        """Load, decide and write; what there is to commit. If that is nothing, nothing is open any more."""
        await session.execute("BEGIN", timeout=deadline.left)
        loaded = await self._load(session, transaction.reads, lock, deadline)
        more = transaction.more(loaded)
        again = await self._load(session, more, lock, deadline, loaded.now) if more else None
        changes = transaction.decide(again)
        if not changes:
            await session.execute("ROLLBACK", timeout=deadline.left)
        else:
            await self._write(session, transaction.batch_id, changes, deadline)
        return changes

    async def _load(
        self, session: Session, reads: Reads, lock: sql.Lock, deadline: Deadline, now: datetime | None = None
    ) -> Loaded:
        kept = self._find_kept(reads.see)
        see = [key for key in reads.see if key not in kept] if kept else reads.see
        rows = await self._fetch_locking(session, sql.load(reads.own, see, lock), lock, deadline)
        now = now or from_micros(int(rows[-1][1]))
        records: dict[Key, Record | None] = dict.fromkeys(reads.own)
        records.update(dict.fromkeys(see))
        found = self._decode(rows[:-1], records)
        records.update(found)
        records.update(kept)
        missing = [key for key in reads.own if key not in found] if lock is sql.Lock.SKIP else []
        held = await self._read(session, missing, deadline) if missing else {}
        records.update(held)
        unreadable: frozenset[Key] = frozenset()
        if len(found) < len(rows) - 1:
            unreadable = await self._find_unreadable(session, records, deadline)
            records = {key: record for key, record in records.items() if key not in unreadable}
        picked = [await self._choose(session, pick, now, deadline) for pick in reads.picks]
        return Loaded(now, records, picked, frozenset(held), unreadable=unreadable)

    async def _fetch_locking(
        self, session: Session, statement: sql.Statement, lock: sql.Lock, deadline: Deadline
    ) -> list[Any]:
        """Fetch under row locks. Whether locks or the server are slow shows in the next step, not here."""
        waits = lock is sql.Lock.WAIT
        seconds = min(_LOCKS_SECONDS, deadline.left) if waits else deadline.left
        try:
            return await session.fetch(statement.sql, *statement.arguments, timeout=seconds)
        except LOCKED as error:
            raise Held(str(error)) from error
        except TimeoutError as error:
            if waits:
                raise Held("the locks took too long") from error
            raise

    async def _read(self, session: Session, keys: Sequence[Key], deadline: Deadline) -> dict[Key, Record]:
        """Those of these keys that exist, without locking them: somebody else has."""
        statement = sql.load((), keys, sql.Lock.NONE)
        rows = await session.fetch(statement.sql, *statement.arguments, timeout=deadline.left)
        return self._decode(rows[:-1], dict.fromkeys(keys))

    async def _find_unreadable(
        self, session: Session, records: Mapping[Key, Record | None], deadline: Deadline
    ) -> frozenset[Key]:
        """Of the keys without a record, those that have a row nevertheless."""
        statement = sql.present([key for key, record in records.items() if record is None])
        rows = await session.fetch(statement.sql, *statement.arguments, timeout=deadline.left)
        kinds = {key.kind.name: key.kind for key in records}
        return frozenset(kinds[name].key(tenant, record_id) for name, tenant, record_id in rows)

    def _decode(self, rows: Sequence[Any], keys: Mapping[Key, object]) -> dict[Key, Record]:
        """Those of these keys whose records can be read."""
        kinds = {key.kind.name: key.kind for key in keys}
        found: dict[Key, Record] = {}
        for name, body in rows:
            kind: Kind[Any] = kinds[name]
            try:
                record = kind.decode(body)
            except Unreadable as unreadable:
                report(unreadable)
                continue
            key = kind.key_of(record)
            if key not in keys:
                continue  # The row of one record has the body of another.
            found[key] = record
            if kind.immutable:
                self._kept.keep(key, record)
        return found

    def _find_kept(self, keys: Iterable[Key]) -> dict[Key, Record]:
        found: dict[Key, Record] = {}
        for key in keys:
            if key.kind.immutable and (record := self._kept.find(key)) is not None:
                found[key] = record
        return found

    async def _choose(
        self, session: Session, pick: Pick[Any], now: datetime, deadline: Deadline
    ) -> tuple[Pick[Any], Sequence[Record]]:
        block, params = named_sql(pick.query), pick.params(now)
        query = block.postgres + (" FOR UPDATE SKIP LOCKED" if pick.own else "")
        choosing = Choosing(pick, now)
        while choosing.asks_for:
            arguments = block.arguments({**params, "limit": choosing.asks_for})
            asked = query if choosing.bytes_max is None else sql.within(query, choosing.bytes_max)
            choosing.take(await session.fetch(asked, *arguments, timeout=deadline.left))
        return choosing.picked

    async def _write(self, session: Session, batch_id: str, changes: Changes, deadline: Deadline) -> None:
        statement = sql.write(batch_id, changes, self._types)
        # A lock that is missing here is a key that somebody else is inserting: a conflict like any other.
        changed = await session.fetchval(statement.sql, *statement.arguments, timeout=deadline.left)
        if changed != sql.rows_expected(changes):
            raise WriteConflict("a record changed under its owner")
