"""One batch on SQLite, between BEGIN and COMMIT: load, decide, write. It never waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from interlock.kernel.clock import CLOCK_TOLERANCE, Clock, OnwardClock
from interlock.kernel.pages import Choosing, report
from interlock.kernel.record import Key, Kind, Params, Pick, Reads, Record, from_micros, micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.storage import Loaded, Row, Transaction, WriteConflict, bytes_of
from interlock.kernel.store_state import FRESH, Repaired, StoreState, raised_floor
from interlock.kernel.world import Changes, Update
from interlock.store import statements
from interlock.store.catalogue import NamedSql, kinds, named_sql
from interlock.store.sqlite.driver import Cursor, Database
from interlock.store.sqlite.place import HighWater
from interlock.store.statements import KeptImmutables

# The state, from when on times are wrong, and the newest batch.
_STATE = (
    f"SELECT {statements.STATE_COLUMNS}, ahead_from, origin, seq, at FROM store_state "
    "LEFT JOIN (SELECT seq, at FROM batches ORDER BY seq DESC LIMIT 1) WHERE store_state.id = 1"
)
_RAISE = (
    "UPDATE store_state SET epoch = epoch + 1, fence_floor = ?, raised_at = ?, raised_why = ? WHERE id = 1"
)
_AHEAD_FROM = "UPDATE store_state SET ahead_from = ? WHERE id = 1"
_NOTED = "UPDATE store_state SET origin = 'noted' WHERE id = 1"
_BATCH = "INSERT INTO batches (id, at, abandoned) VALUES (?, ?, ?) RETURNING seq"
_ABANDONED = "SELECT abandoned FROM batches WHERE id = ?"


class SqliteBatches:
    """Works on the one connection that writes; the caller begins and ends the transaction.

    The first batch finds out whether the file is behind its high-water mark, and raises the epoch if it may be.
    """

    def __init__(self, database: Database, clock: Clock, path: Path) -> None:
        self._database = database
        self._cursor = database.cursor()
        self._wall = clock
        self._clock = OnwardClock(clock)
        self._high_water = HighWater(path)
        self._is_vouched_for = False
        self._written: int | None = None
        self._state: StoreState = FRESH
        self._ahead_from: int | None = None
        self._newest: int | None = None
        self._was_noted = False
        self._kept = KeptImmutables()

    def decide_and_write(self, transaction: Transaction) -> bool:
        """Whether there is anything to commit."""
        now = self.now()
        doubt = (
            None if self._is_vouched_for else self._high_water.doubt(self._newest, was_noted=self._was_noted)
        )
        if doubt is not None:
            self._raise_epoch(doubt, now)
        loaded = self._load(transaction.reads, now)
        more = transaction.more(loaded)
        changes = transaction.decide(self._load(more, now) if more else None)
        if changes or doubt is not None:
            self._write(transaction.batch_id, changes, now)
        return bool(changes) or doubt is not None

    def raise_epoch(self, batch_id: str, why: str) -> StoreState:
        """Make every fence from now on greater than any before."""
        now = self.now()
        self._raise_epoch(why, now)
        self._begin_batch(batch_id, now)
        return self._state

    def repair_clock(self) -> Repaired | None:
        """Set the store's clock back to the machine's, and what a wrong clock dated with it."""
        now, wall = self.now(), self._wall()
        if self._clock.ahead <= CLOCK_TOLERANCE:
            return None
        self._note_trouble()
        return repair(self._cursor, wall=wall, ahead=now - wall, since=self._ahead_from or micros(now))

    def committed(self) -> None:
        """COMMIT has happened, and no caller has its answer yet."""
        if self._written is not None:
            self._high_water.reached(self._written, is_first=not self._is_vouched_for)
            self._is_vouched_for = True
            self._written = None

    def abandon(self, batch_id: str) -> bool:
        """Mark a batch as never to commit; False if it did commit."""
        now = self.now()
        abandoned = self._cursor.execute(_ABANDONED, (batch_id,)).get
        if abandoned is None:
            self._cursor.execute(_BATCH, (batch_id, micros(now), 1)).fetchall()
        elif abandoned == 0:
            self._written = self._newest  # A caller is about to be told.
        return abandoned != 0

    def now(self) -> datetime:
        """Later than any batch before, in whichever process it ran; and time always passes."""
        row: tuple[Any, ...] = self._cursor.execute(_STATE).get
        *columns, self._ahead_from, noted, self._newest, at = row
        found = statements.state_of(columns)
        if found.clock_repairs != self._state.clock_repairs:
            self._clock.forget()
        self._state, self._written, self._was_noted = found, None, noted is not None
        return self._clock.now(not_before=from_micros((at or 0) + 1))

    def _raise_epoch(self, why: str, now: datetime) -> None:
        floor = raised_floor(self._state.fence_floor, micros(now))
        self._cursor.execute(_RAISE, (floor, micros(now), why))
        self._state = statements.state_of(self._cursor.execute(statements.READ_STATE).get)

    def _begin_batch(self, batch_id: str, now: datetime) -> None:
        self._written = self._cursor.execute(_BATCH, (batch_id, micros(now), 0)).get
        if not self._was_noted:
            self._cursor.execute(_NOTED)
        self._note_trouble()

    def _note_trouble(self) -> None:
        """Remember from when on times are wrong, as long as the batches that show it are there."""
        is_ahead = self._clock.ahead > CLOCK_TOLERANCE
        if is_ahead is (self._ahead_from is None):
            self._ahead_from = ahead_from(self._cursor, self._wall()) if is_ahead else None
            self._cursor.execute(_AHEAD_FROM, (self._ahead_from,))

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
        # BEGIN IMMEDIATE has the file's one write lock.
        return Loaded(now, records, picked, alone=True, unreadable=frozenset(unreadable), state=self._state)

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
        self._begin_batch(batch_id, now)
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
    """What a named block finds, up to the row that reaches `bytes_max` bytes of text."""
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


# Events are found by their column alone; those that were sent are not sent again.
_BY_COLUMN = ("events", "batches")
_UNTOUCHED = ("audit_entries",)
# What a hold calls its own length.
_LENGTHS = ("ttl_seconds", "seconds")

_FIRST_AHEAD = "SELECT min(at) FROM batches WHERE at > ?"
_REPAIRED = (
    "UPDATE store_state SET clock_repairs = clock_repairs + 1, clock_repaired_at = ?, "
    "ids_ahead = ids_ahead + ?, ahead_from = NULL WHERE id = 1"
)


def ahead_from(cursor: Cursor, wall: datetime) -> int | None:
    """The first moment that only a wrong clock can have shown."""
    return cursor.execute(_FIRST_AHEAD, (micros(wall + CLOCK_TOLERANCE),)).get


def repair(cursor: Cursor, *, wall: datetime, ahead: timedelta, since: int) -> Repaired:
    """Set the store's clock back after it was ahead, together with the times that were written meanwhile.

    Time in a store never goes back by itself (decision 0040): after a wrong reading, only an operator can know which
    clock was wrong. The repair moves every time since the leap back by as much as the store is ahead, so a lease with
    ten seconds left still has ten seconds left. It does not move times from before the leap, the audit log, ids or
    fences: audit entries stay as written, and fences must only grow. A lease that ends within its own length from now
    is left as it is: its holder was given this time before the leap, and nobody else may take it earlier.

    Runs in the caller's transaction. The next batch is at `wall` or later.
    """
    mover = _Mover(wall=wall, ahead=ahead, since=from_micros(since))
    records = sum(_move_all(cursor, kind, mover) for kind in kinds().values() if _is_moved(kind))
    distance = micros(wall + ahead) - micros(wall)
    for table in _BY_COLUMN:
        cursor.execute(f"UPDATE {table} SET at = at - ? WHERE at >= ?", (distance, since))
    cursor.execute(_REPAIRED, (micros(wall), distance))
    return Repaired(ahead=ahead, since=mover.since, records=records)


class _Mover:
    """Moves the times in a record that are from `since` on."""

    def __init__(self, *, wall: datetime, ahead: timedelta, since: datetime) -> None:
        self._wall = wall
        self._ahead = ahead
        self.since = since

    def moved(self, value: Any, right_until: datetime | None = None) -> Any:
        """The same with other times. Up to `right_until`, a time is what it should be."""
        if isinstance(value, datetime):
            is_right = value < self.since or (right_until is not None and value <= right_until)
            return value if is_right else value - self._ahead
        if isinstance(value, msgspec.Struct):
            return self._moved_struct(value)
        if isinstance(value, tuple):
            return tuple(self.moved(each) for each in value)  # pyright: ignore[reportUnknownVariableType]
        return value

    def _moved_struct(self, value: msgspec.Struct) -> msgspec.Struct:
        length = next((getattr(value, name) for name in _LENGTHS if hasattr(value, name)), None)
        until = None if length is None else self._wall + timedelta(seconds=length)
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: self.moved(each, until) for name, each in fields.items()}
        return value if changed == fields else msgspec.structs.replace(value, **changed)


def _is_moved(kind: Kind[Any]) -> bool:
    return not kind.immutable and kind.table not in (*_BY_COLUMN, *_UNTOUCHED)


def _move_all(cursor: Cursor, kind: Kind[Any], mover: _Mover) -> int:
    changed = list(_changed(cursor, kind, mover))
    for before, after in changed:
        cursor.execute(statements.update_one(kind), (*kind.row(after), before.version))
    return len(changed)


def _changed(cursor: Cursor, kind: Kind[Any], mover: _Mover) -> Iterator[tuple[Record, Record]]:
    for (body,) in cursor.execute(f"SELECT body FROM {kind.table}"):
        try:
            before = kind.decode(body)
        except Unreadable:
            continue
        after = mover.moved(before)
        if after is not before:
            yield before, msgspec.structs.replace(after, version=before.version + 1)
