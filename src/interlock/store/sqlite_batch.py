"""One batch on SQLite, between BEGIN and COMMIT: load, decide, write. Runs without waiting for anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from interlock.kernel.record import Key, Params, Pick, Reads, Record, from_micros, micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Transaction, WriteConflict
from interlock.kernel.world import Changes, Update
from interlock.store import statements
from interlock.store.clock import Clock, OnwardClock
from interlock.store.contract import Row, bytes_of
from interlock.store.immutable import KeptImmutables
from interlock.store.named_sql import NamedSql, named_sql
from interlock.store.sqlite_driver import Cursor, Database
from interlock.store.unreadable import Choosing, report

_NEWEST = "SELECT at FROM batches ORDER BY seq DESC LIMIT 1"
_BATCH = "INSERT INTO batches (id, at, abandoned) VALUES (?, ?, ?)"
_ABANDONED = "SELECT abandoned FROM batches WHERE id = ?"


class SqliteBatches:
    """Works on the one connection that writes; the caller begins and ends the transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._cursor = database.cursor()
        self._clock = OnwardClock(clock)
        self._kept = KeptImmutables()

    def decide_and_write(self, transaction: Transaction, reads: Reads) -> bool:
        """Whether there is anything to commit. `reads` are those of the transaction, and of its guests."""
        now = self.now()
        loaded = self._load(reads, now)
        more = transaction.more(loaded)
        changes = transaction.decide(self._load(more, now) if more else None)
        if changes:
            self._write(transaction.batch_id, changes, now)
        return bool(changes)

    def abandon(self, batch_id: str) -> bool:
        """Mark a batch as never to commit; False if it did commit."""
        abandoned = self._cursor.execute(_ABANDONED, (batch_id,)).get
        if abandoned is None:
            self._cursor.execute(_BATCH, (batch_id, micros(self.now()), 1))
        return abandoned != 0

    def now(self) -> datetime:
        """Never earlier than any batch before, in whichever process it ran; and time always passes."""
        newest = self._cursor.execute(_NEWEST).get
        return self._clock.now(not_before=from_micros(newest or 0))

    def _load(self, reads: Reads, now: datetime) -> Loaded:
        records: dict[Key, Record | None] = {}
        unreadable: list[Key] = []
        for keys in (reads.own, reads.see):
            for key in keys:
                try:
                    records[key] = self._find(key)
                except Unreadable as error:
                    report(error)
                    unreadable.append(key)
        picked = [self._choose(pick, now) for pick in reads.picks]
        # BEGIN IMMEDIATE has the file's one writer lock.
        return Loaded(now, records, picked, alone=True, unreadable=frozenset(unreadable))

    def _choose(self, pick: Pick[Any], now: datetime) -> tuple[Pick[Any], Sequence[Record]]:
        block, params = named_sql(pick.query), pick.params(now)
        choosing = Choosing(pick, now)
        # One that ends early closes its cursor.
        runs = self._cursor if pick.bytes_max is None else self._database
        while choosing.asks_for:
            asked = {**params, "limit": choosing.asks_for}
            choosing.take(rows_of(runs, block, asked, choosing.bytes_max))
        return choosing.picked

    def _find(self, key: Key) -> Record | None:
        kind = key.kind
        if kind.immutable and (kept := self._kept.find(key)):
            return kept
        record = select(self._cursor, key)
        if kind.immutable and record is not None:
            self._kept.keep(key, record)
        return record

    def _write(self, batch_id: str, changes: Changes, now: datetime) -> None:
        cursor = self._cursor
        cursor.execute(_BATCH, (batch_id, micros(now), 0))
        for kind, record in changes.inserts:
            cursor.execute(statements.insert_one(kind), kind.row(record))
        for update in changes.updates:
            self._update(update)
            self._expect_one()
        for key, version in changes.deletes:
            cursor.execute(statements.delete_one(key.kind), (key.tenant, key.id, version))
            self._expect_one()

    def _update(self, update: Update) -> None:
        kind = update.kind
        if update.before is None:
            values = (*kind.row(update.record), update.version_before)
            self._cursor.execute(statements.update_one(kind), values)
        else:
            changed = kind.changed(update.before, update.record)
            values = (*kind.head(update.record), *changed.values(), update.version_before)
            self._cursor.execute(statements.update_some(kind, tuple(changed)), values)

    def _expect_one(self) -> None:
        if self._database.changes() != 1:
            raise WriteConflict("a record changed under its owner")


def rows_of(
    runs: Cursor | Database, block: NamedSql, params: Params, bytes_max: int | None = None
) -> list[Row]:
    """What a named block finds, up to the first row that comes after so many bytes of texts."""
    found = runs.execute(block.sqlite, block.arguments(params))
    if bytes_max is None:
        return list(found.fetchall())
    rows: list[Row] = []
    ahead = 0
    for row in found:
        rows.append(row)
        if ahead >= bytes_max:
            found.close()
            break
        ahead += bytes_of(row)
    return rows


def select(cursor: Cursor, key: Key) -> Any:
    """One record, or None."""
    body = cursor.execute(statements.select_one(key.kind), (key.tenant, key.id)).get
    return None if body is None else key.kind.decode_as(key, body)
