"""Sets a SQLite store's clock back after it was ahead, together with the times that were written meanwhile.

Time in a store never goes back by itself (decision 0040). After one wrong reading, only an operator can know which
clock was wrong. The repair moves every time since the leap back by as much as the store is ahead, so a lease with ten
seconds left still has ten seconds left. It does not move times from before the leap, the audit log, ids or fences:
audit entries stay as written, and fences must only grow.

A lease that ends within its own length from now is left as it is: its holder was given this time before the leap, and
nobody else may take it earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Kind, Record, from_micros, micros
from interlock.kernel.refusal import Unreadable
from interlock.kernel.store_state import Repaired
from interlock.store import statements
from interlock.store.catalogue import kinds
from interlock.store.clock import TOLERANCE
from interlock.store.sqlite.driver import Cursor

# Events are found by their column alone, and what was told of them stays told.
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
    return cursor.execute(_FIRST_AHEAD, (micros(wall + TOLERANCE),)).get


def repair(cursor: Cursor, *, wall: datetime, ahead: timedelta, since: int) -> Repaired:
    """Move everything back, in the transaction that the caller has begun. The next batch is at `wall` or later."""
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
