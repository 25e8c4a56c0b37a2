"""One batch on PostgreSQL, from BEGIN up to what COMMIT carries: lock and load, decide, write."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.kernel.record import Key, Pick, Reads, Record, from_micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Transaction, WriteConflict
from interlock.kernel.world import Changes
from interlock.store.immutable import KeptImmutables
from interlock.store.named_sql import named_sql
from interlock.store.postgres import statements as sql
from interlock.store.postgres.connections import Deadline
from interlock.store.postgres.driver import LOCKED, SERVER_SAID_NO, Session
from interlock.store.postgres.pipeline import BEGIN, ROLLBACK, Answer, Asked, Pipeline, Row
from interlock.store.unreadable import Choosing, report

# `lock_timeout` bounds the wait for each row; this bounds the wait for all of them.
_LOCKS_SECONDS = 0.5

# What second reads asked for is loaded with the first reads of so many batches, so many keys at most.
_FORESEEN_BATCHES = 64
_FORESEEN_MAX = 16


class Held(Exception):
    """Somebody held a lock for longer than a batch waits for it; the transaction must be rolled back."""


class Foresight:
    """What second reads asked to see lately: most decisions look at the same few principals as the ones before them.

    Whatever is foreseen is read by each batch anew, after its locks.
    """

    def __init__(self) -> None:
        self._batches_left: dict[Key, int] = {}

    def note(self, asked: Iterable[Key]) -> None:
        """Have these loaded with the next batches."""
        for key in asked:
            self._batches_left.pop(key, None)
            self._batches_left[key] = _FORESEEN_BATCHES
        while len(self._batches_left) > _FORESEEN_MAX:
            del self._batches_left[next(iter(self._batches_left))]

    def forget(self) -> None:
        """Something that was foreseen cannot be loaded; let it be met by whoever asks for it, and by nobody else."""
        self._batches_left.clear()

    def keys(self, *, besides: Container[Key]) -> list[Key]:
        """What the next batch is likely to ask for, besides what it asks for anyway."""
        found = [key for key in self._batches_left if key not in besides]
        self._batches_left = {key: left - 1 for key, left in self._batches_left.items() if left > 1}
        return found


class PostgresBatches:
    """Carries batches on connections that the caller commits or rolls back."""

    def __init__(self) -> None:
        self._types: sql.ColumnTypes = {}
        self._kept = KeptImmutables()
        self._foresight = Foresight()

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
        """The first load begins the transaction and reads the clock; `now` is what it read, for the second."""
        kept = self._find_kept(reads.see)
        see = [key for key in reads.see if key not in kept]
        records: dict[Key, Record | None] = dict.fromkeys((*reads.own, *see))
        groups = sql.grouped(reads.own, see, lock)
        foreseen: list[sql.Group] = []
        if now is None:
            foreseen = sql.grouped((), self._foresight.keys(besides=records), lock)
            records.update((key, None) for group in foreseen for key in group.keys)
        rows, clock = await self._ask(session, groups, foreseen, lock, deadline, begin=now is None)
        if now is not None:
            self._foresight.note(key for key in see if not key.kind.immutable)
        unreadable: set[Key] = set()
        if not self._place_all((*groups, *foreseen), rows, records):
            own = set(reads.own)
            others = [key for key in records if key not in own]
            unreadable |= _place(await self._each(session, own, lock, deadline), records)
            unreadable |= _place(await self._each(session, others, sql.Lock.NONE, deadline), records)
        held: dict[Key, Record | None] = {}
        if lock is sql.Lock.SKIP:
            missing = [key for key in reads.own if key in records and records[key] is None]
            held = await self._each(session, missing, sql.Lock.NONE, deadline)
            unreadable |= _place(held, records)
        records.update(kept)
        picked = [await self._choose(session, pick, now or clock, deadline) for pick in reads.picks]
        return Loaded(now or clock, records, picked, frozenset(held), unreadable=frozenset(unreadable))

    async def _ask(
        self,
        session: Pipeline,
        groups: Sequence[sql.Group],
        foreseen: Sequence[sql.Group],
        lock: sql.Lock,
        deadline: Deadline,
        *,
        begin: bool,
    ) -> tuple[list[Row], datetime]:
        """A row for each of the groups, those that are foreseen behind the others, and the time after all locks."""
        asked = [BEGIN, sql.load(groups)] if begin else [sql.load(groups)]
        if foreseen:
            asked.append(sql.load(foreseen))
        try:
            answers = await self._locked(session, asked, lock, deadline)
        except (SERVER_SAID_NO, ValueError) as error:
            if not foreseen:
                raise
            self._foresight.forget()
            raise WriteConflict("something that nobody has asked for cannot be loaded") from error
        rows = [row for answer in answers for row in answer.rows[:-1]]
        return rows, from_micros(int(answers[-1].rows[-1][0] or 0))

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

    def _place_all(
        self, groups: Sequence[sql.Group], rows: Sequence[Row], records: dict[Key, Record | None]
    ) -> bool:
        """Put what a load found into its place, a row a group; False if some of it is not what was asked for."""
        for (kind, keys, _), (count, bodies) in zip(groups, rows, strict=True):
            try:
                found = {kind.key_of(record): record for record in kind.decode_all(bodies or b"[]")}
            except Unreadable:
                return False
            if len(found) != int(count or 0) or not found.keys() <= set(keys):
                return False  # The row of one record has the body of another.
            records.update(found)
            if kind.immutable:
                for key, record in found.items():
                    self._kept.keep(key, record)
        return True

    async def _each(
        self, session: Pipeline, keys: Iterable[Key], lock: sql.Lock, deadline: Deadline
    ) -> dict[Key, Record | None]:
        """Of those keys that have a row, read one by one, the record in it; None if it holds something else."""
        wanted = {(key.kind.name, key.tenant, key.id): key for key in keys}
        if not wanted:
            return {}
        (answer,) = await session.ask(sql.each(wanted.values(), lock), seconds=deadline.left)
        found: dict[Key, Record | None] = {}
        for row in answer.rows:
            name, tenant, record_id = (str(field or b"", "utf-8") for field in row[:3])
            key = wanted[name, tenant, record_id]
            try:
                found[key] = key.kind.decode_as(key, row[3] or b"")
            except Unreadable as unreadable:
                report(unreadable)
                found[key] = None
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
            # A text that is none is for whoever reads it to refuse.
            choosing.take([(str(row[0] or b"", "utf-8", "surrogateescape"),) for row in answer.rows])
        return choosing.picked


def _place(found: Mapping[Key, Record | None], records: dict[Key, Record | None]) -> set[Key]:
    """Put them into their places, where there is none for what holds something else; returns the keys of the latter."""
    records.update(found)
    unreadable = {key for key, record in found.items() if record is None}
    for key in unreadable:
        del records[key]
    return unreadable
