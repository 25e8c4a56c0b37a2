"""One batch on PostgreSQL, from BEGIN up to what COMMIT carries: lock and load, decide, write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from interlock.kernel.record import Key, Kind, Pick, Reads, Record, from_micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Transaction
from interlock.kernel.world import Changes
from interlock.store import postgres_sql as sql
from interlock.store.immutable import KeptImmutables
from interlock.store.named_sql import named_sql
from interlock.store.postgres_driver import LOCKED, Session
from interlock.store.postgres_pipeline import Answer, Asked, Pipeline, Row
from interlock.store.unreadable import Choosing, report

# `lock_timeout` bounds the wait for each row; this bounds the wait for all of them.
_LOCKS_SECONDS = 0.5
_SECONDS_MIN = 0.01

BEGIN = Asked("BEGIN")
ROLLBACK = Asked("ROLLBACK")


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
    """Carries batches on connections that the caller commits or rolls back."""

    def __init__(self) -> None:
        self._types: sql.ColumnTypes = {}
        self._kept = KeptImmutables()

    async def learn_columns(self, session: Session) -> None:
        """Read the columns' types, which their values are sent as."""
        rows = await session.fetch(sql.COLUMN_TYPES)
        self._types = {(row[0], row[1]): row[2] for row in rows}

    async def attempt(
        self, session: Pipeline, transaction: Transaction, lock: sql.Lock, deadline: Deadline
    ) -> Changes:
        """Begin, load and decide; what there is to write. If that is nothing, nothing is open any more."""
        loaded = await self._load(session, transaction.reads, lock, deadline)
        more = transaction.more(loaded)
        again = await self._load(session, more, lock, deadline, loaded.now) if more else None
        changes = transaction.decide(again)
        if not changes:
            await session.ask(ROLLBACK, seconds=deadline.left)
        return changes

    def writing(self, batch_id: str, changes: Changes) -> Asked:
        """What writes them all, or fails."""
        return sql.write(batch_id, changes, self._types)

    async def _load(
        self, session: Pipeline, reads: Reads, lock: sql.Lock, deadline: Deadline, now: datetime | None = None
    ) -> Loaded:
        kept = self._find_kept(reads.see)
        see = [key for key in reads.see if key not in kept] if kept else reads.see
        asked = sql.load(reads.own, see, lock)
        answers = await self._locked(session, (asked,) if now else (BEGIN, asked), lock, deadline)
        *rows, (_, clock, _) = answers[-1].rows
        now = now or from_micros(int(clock or 0))
        records: dict[Key, Record | None] = dict.fromkeys(reads.own)
        records.update(dict.fromkeys(see))
        unreadable = await self._place(session, rows, records, deadline)
        held: frozenset[Key] = frozenset()
        if lock is sql.Lock.SKIP:
            missing = [key for key in reads.own if records.get(key) is None and key not in unreadable]
            held = await self._place_held(session, missing, records, deadline)
        records.update(kept)
        picked = [await self._choose(session, pick, now, deadline) for pick in reads.picks]
        return Loaded(now, records, picked, held, unreadable=unreadable)

    async def _locked(
        self, session: Pipeline, asked: Sequence[Asked], lock: sql.Lock, deadline: Deadline
    ) -> list[Answer]:
        """Ask under row locks. Whether locks or the server are slow shows in the next step, not here."""
        waits = lock is sql.Lock.WAIT
        seconds = min(_LOCKS_SECONDS, deadline.left) if waits else deadline.left
        try:
            return await session.ask(*asked, seconds=seconds)
        except LOCKED as error:
            raise Held(str(error)) from error
        except TimeoutError as error:
            if waits:
                raise Held("the locks took too long") from error
            raise

    async def _place(
        self, session: Pipeline, rows: Sequence[Row], records: dict[Key, Record | None], deadline: Deadline
    ) -> frozenset[Key]:
        """Put what was found into its place; returns the keys whose rows hold something else than their record."""
        kinds = {key.kind.name: key.kind for key in records}
        spoilt: list[Key] = []
        for name, count, bodies in rows:
            kind: Kind[Any] = kinds[str(name or b"", "ascii")]
            if not self._place_all(kind, int(count or 0), bodies or b"[]", records):
                spoilt += [key for key in records if key.kind is kind]
        found = await self._place_each(session, spoilt, records, deadline) if spoilt else {}
        return frozenset(key for key, is_readable in found.items() if not is_readable)

    def _place_all(
        self, kind: Kind[Any], count: int, bodies: bytes, records: dict[Key, Record | None]
    ) -> bool:
        """Whether these are so many records, and each of them was asked for; if so, they are in their places."""
        try:
            found = {kind.key_of(record): record for record in kind.decode_all(bodies)}
        except Unreadable:
            return False
        if len(found) != count or not found.keys() <= records.keys():
            return False  # The row of one record has the body of another.
        records.update(found)
        if kind.immutable:
            for key, record in found.items():
                self._kept.keep(key, record)
        return True

    async def _place_held(
        self, session: Pipeline, missing: Sequence[Key], records: dict[Key, Record | None], deadline: Deadline
    ) -> frozenset[Key]:
        """Those of these keys that exist: somebody else has locked them. What they hold may still be seen."""
        return (
            frozenset(await self._place_each(session, missing, records, deadline)) if missing else frozenset()
        )

    async def _place_each(
        self, session: Pipeline, keys: Iterable[Key], records: dict[Key, Record | None], deadline: Deadline
    ) -> dict[Key, bool]:
        """Read rows one by one, without locking them: those that there are, and whether they hold their record."""
        wanted = {(key.kind.name, key.tenant, key.id): key for key in keys}
        (answer,) = await session.ask(sql.each(wanted.values()), seconds=deadline.left)
        found: dict[Key, bool] = {}
        for row in answer.rows:
            name, tenant, record_id, body = (str(field or b"", "utf-8") for field in row)
            key = wanted[name, tenant, record_id]
            try:
                records[key], found[key] = key.kind.decode_as(key, body), True
            except Unreadable as unreadable:
                report(unreadable)
                records.pop(key, None)
                found[key] = False
        return found

    def _find_kept(self, keys: Iterable[Key]) -> dict[Key, Record]:
        found: dict[Key, Record] = {}
        for key in keys:
            if key.kind.immutable and (record := self._kept.find(key)) is not None:
                found[key] = record
        return found

    async def _choose(
        self, session: Pipeline, pick: Pick[Any], now: datetime, deadline: Deadline
    ) -> tuple[Pick[Any], Sequence[Record]]:
        block, params = named_sql(pick.query), pick.params(now)
        query = block.postgres + (" FOR UPDATE SKIP LOCKED" if pick.own else "")
        choosing = Choosing(pick, now)
        while choosing.asks_for:
            arguments = block.arguments({**params, "limit": choosing.asks_for})
            values = [None if value is None else str(value) for value in arguments]
            said = query if choosing.bytes_max is None else sql.within(query, choosing.bytes_max)
            (answer,) = await session.ask(Asked(said, values), seconds=deadline.left)
            choosing.take([(str(row[0] or b"", "utf-8"),) for row in answer.rows])
        return choosing.picked
