"""The world a batch decides in: what was loaded, what is staged, and the time.

Commands of one batch share it in arrival order, so each sees what the ones before it decided. A
command's own staging can be undone without touching its neighbours'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from interlock.kernel.record import Key, Kind, Pick, Record

R = TypeVar("R", bound=Record)
NewId = Callable[[str], str]


class Deferred(Exception):
    """Decide this command again in a later batch: others took what it picked, and there is more."""


class Update(msgspec.Struct, frozen=True):
    """A changed record and the version that it must still have in the store."""

    kind: Kind[Any]
    record: Record
    version_before: int


class Changes(msgspec.Struct, frozen=True):
    """Everything one batch writes."""

    inserts: Sequence[tuple[Kind[Any], Record]]
    updates: Sequence[Update]
    deletes: Sequence[tuple[Key, int]]
    wakes: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.inserts or self.updates or self.deletes)


class World:
    """Loaded records, staged changes, one clock."""

    def __init__(self, now: datetime, new_id: NewId) -> None:
        self.now = now
        self.new_id = new_id
        self._loaded: dict[Key, Record | None] = {}
        self._owned: set[Key] = set()
        self._full_picks: dict[Pick[Any], bool] = {}
        self._current: dict[Key, Record | None] = {}
        self._fresh: list[tuple[Kind[Any], Record]] = []
        self._wakes: set[str] = set()
        self._undo: list[tuple[Key, bool, Record | None]] = []
        self._mark = (0, frozenset[str]())

    # What commands use.

    def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        """The record as earlier commands of the batch left it, or None if there is none."""
        key = Key(kind, tenant, record_id)
        if key in self._current:
            return cast("R | None", self._current[key])
        if key not in self._loaded:
            raise LookupError(f"{kind.name} {record_id} was not declared in reads()")
        return cast("R | None", self._loaded[key])

    def pick(self, pick: Pick[R]) -> tuple[R, ...]:
        """The records that match now, in the pick's order, at most its limit."""
        unlimited = msgspec.structs.replace(pick, limit=0)
        if unlimited not in self._full_picks:
            raise LookupError(f"pick {pick.query} was not declared in reads()")
        found = [
            cast("R", record)
            for key, record in {**self._loaded, **self._current}.items()
            if key.kind is pick.kind and record is not None and (not pick.own or key in self._owned)
            if pick.matches(cast("R", record), self.now)
        ]
        found.sort(key=pick.sort_key)
        if len(found) < pick.limit and self._full_picks[unlimited] and self._touched(pick.kind):
            raise Deferred(pick.query)
        return tuple(found[: pick.limit])

    def put(self, kind: Kind[R], record: R) -> R:
        """Stage a change to an owned record, or its first version; returns it with its new version."""
        key = kind.key_of(record)
        if key not in self._owned:
            raise LookupError(f"{kind.name} {record.id} is not owned by this batch")
        before = self.get(kind, record.tenant, record.id)
        stored = msgspec.structs.replace(record, version=(before.version if before else 0) + 1)
        self._stage(key, stored)
        return stored

    def add(self, kind: Kind[R], record: R) -> R:
        """Stage a new record under a fresh id that nobody can have used."""
        stored = msgspec.structs.replace(record, version=1)
        self._fresh.append((kind, stored))
        return stored

    def delete(self, kind: Kind[R], record: R) -> None:
        """Stage the removal of an owned record."""
        key = kind.key_of(record)
        if key not in self._owned:
            raise LookupError(f"{kind.name} {record.id} is not owned by this batch")
        self._stage(key, None)

    def wake(self, topic: str) -> None:
        """Tell whoever waits on this topic, once the batch has committed."""
        self._wakes.add(topic)

    # What the kernel uses.

    def admit(self, records: Mapping[Key, Record | None], owned: frozenset[Key]) -> None:
        """Take in what a load returned; a key that is absent in the store maps to None."""
        self._loaded.update(records)
        self._owned |= owned

    def admit_pick(self, pick: Pick[Any], count: int) -> None:
        """Remember that this pick was loaded, and whether its limit cut it short."""
        self._full_picks[msgspec.structs.replace(pick, limit=0)] = count >= pick.limit

    def begin(self) -> None:
        """Start one command's staging."""
        self._undo.clear()
        self._mark = (len(self._fresh), frozenset(self._wakes))

    def undo(self) -> None:
        """Forget what the command since `begin` staged."""
        for key, was_current, record in reversed(self._undo):
            if was_current:
                self._current[key] = record
            else:
                del self._current[key]
        self._undo.clear()
        fresh_count, wakes = self._mark
        del self._fresh[fresh_count:]
        self._wakes = set(wakes)

    def changes(self) -> Changes:
        """What the whole batch staged, in the global order."""
        inserts: list[tuple[Kind[Any], Record]] = list(self._fresh)
        updates: list[Update] = []
        deletes: list[tuple[Key, int]] = []
        for key in sorted(self._current, key=lambda key: key.rank):
            before, after = self._loaded.get(key), self._current[key]
            if after is None:
                if before is not None:
                    deletes.append((key, before.version))
            elif before is None:
                inserts.append((key.kind, after))
            else:
                updates.append(Update(key.kind, after, before.version))
        return Changes(inserts, updates, deletes, frozenset(self._wakes))

    def _stage(self, key: Key, record: Record | None) -> None:
        self._undo.append((key, key in self._current, self._current.get(key)))
        self._current[key] = record

    def _touched(self, kind: Kind[Any]) -> bool:
        return any(key.kind is kind for key in self._current)
