"""Commands, and the world that a batch of them decides in: the loaded records, the staged changes, and the time.

The commands of a batch share one world in arrival order, so each sees what the earlier ones decided. A command's own
changes can be undone without touching those of others.

A command names its reads before the earlier commands decide. If their changes make it need a record that was not
loaded, the command is `Deferred` to the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from interlock.kernel.computation import Computation, Compute, compute_here
from interlock.kernel.record import NOTHING, Key, Kind, Pick, Reads, Record
from interlock.kernel.refusal import Refusal, Unreadable
from interlock.kernel.store_state import FRESH, StoreState

R = TypeVar("R", bound=Record)


T = TypeVar("T")
NewId = Callable[[str], str]


class Deferred(Exception):
    """Decide this command again in the next batch: the ones ahead of it changed what it needs."""


class NotLoaded(LookupError):
    """The command uses a record that no command of the batch asked for."""


class Update(msgspec.Struct, frozen=True):
    """A changed record and the version that it must still have in the store; `before` says what has changed."""

    kind: Kind[Any]
    record: Record
    version_before: int
    before: Record | None = None


class Changes(msgspec.Struct, frozen=True):
    """Everything one batch writes. Inserts of owned keys come in the global order, after fresh ones."""

    inserts: Sequence[tuple[Kind[Any], Record]]
    updates: Sequence[Update]
    deletes: Sequence[tuple[Key, int]]
    wakes: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.inserts or self.updates or self.deletes)


class _Unknown:
    """Stands for "no such key here", where None means "known to be absent"."""


_UNKNOWN: Final = _Unknown()


class World:
    """Loaded records, staged changes, one clock."""

    def __init__(
        self,
        now: datetime,
        new_id: NewId,
        state: StoreState = FRESH,
        compute: Compute = compute_here,
    ) -> None:
        self.now = now
        self.new_id = new_id
        self.state = state
        self._compute = compute
        self._records: dict[Key, Record | None] = {}
        self._owned: set[Key] = set()
        self._unreadable: set[Key] = set()
        self._picks: dict[Pick[Any], Candidates[Any]] = {}
        self._picked_kinds: set[Kind[Any]] = set()
        self._made: dict[object, tuple[object, Reads]] = {}
        # Keys this batch staged, each with what the store has; those that `add` made, in their order.
        self._before: dict[Key, Record | None] = {}
        self._added: dict[Key, None] = {}
        self._unwatched = 0
        self._changed: list[Key] = []
        self._wakes: list[str] = []
        self._undo: list[tuple[Key, Record | _Unknown | None, bool]] = []
        self._marks = (0, 0, 0, 0)

    # What commands use.

    def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        """The record as earlier commands of the batch left it, or None if there is none."""
        try:
            # A plain tuple equals its Key and costs a third of one; rules ask this ten times a decision.
            return cast("R | None", self._records[kind, tenant, record_id])  # pyright: ignore[reportArgumentType]
        except KeyError:
            if Key(kind, tenant, record_id) in self._unreadable:
                raise Unreadable(kind.name, record_id) from None
            raise self._early(f"{kind.name} {record_id} is not in the command's reads") from None

    def pick(self, pick: Pick[R]) -> tuple[R, ...]:
        """The records that match now, in the pick's order, at most its limit."""
        candidates = self._picks.get(pick.unlimited())
        if candidates is None:
            raise self._early(f"the pick {pick.query} is not in the command's reads")
        found = candidates.choose(pick, self._records, self._before, self._changed, self.now)
        if len(found) < pick.limit and candidates.is_full and self._others_changed(pick.kind):
            raise Deferred(f"others of the batch took what {pick.query} found, and there is more")
        return found

    def last_seen(self, pick: Pick[R]) -> R | None:
        """The last record that a pick loaded; None if it loaded all there are, so that nothing comes after."""
        candidates = self._picks.get(pick.unlimited())
        return candidates.last if candidates else None

    def once(self, make: Callable[[tuple[R, ...]], Reads], found: tuple[R, ...]) -> Reads:
        """The reads that `make` makes of what a pick found, made once for all of the batch that found the same."""
        known = self._made.get(make)
        if known is None or known[0] is not found:
            self._made[make] = known = (found, make(found))
        return known[1]

    def put(self, kind: Kind[R], record: R) -> R:
        """Stage a change to an owned record, or its first version; returns it with its new version."""
        key = self._owned_key(kind, record)
        before = self.get(*key)
        stored = msgspec.structs.replace(record, version=(before.version if before else 0) + 1)
        self._stage(key, stored)
        return stored

    def add(self, kind: Kind[R], record: R) -> R:
        """Stage a new record under a fresh, unused id."""
        key = Key(kind, record.tenant, record.id)
        if self._records.get(key) is not None:
            raise ValueError(f"{kind.name} {record.id} exists; an added record needs a fresh id")
        if key not in self._records and kind not in self._picked_kinds:
            self._unwatched += 1
        stored = record if record.version == 1 else msgspec.structs.replace(record, version=1)
        self._stage(key, stored)
        self._added[key] = None
        return stored

    def delete(self, kind: Kind[R], record: R) -> None:
        """Stage the removal of an owned record."""
        self._stage(self._owned_key(kind, record), None)

    def compute(self, computation: Computation[T]) -> T:
        """The result of something pure that may take long; `NotComputed` if it has to be computed elsewhere first."""
        return cast("T", self._compute(computation))

    def next_fence(self, *previous: int) -> int:
        """The fence after these of one resource. Every fence is made here, so that none is handed out twice."""
        return self.state.next_fence(*previous)

    def wake(self, topic: str) -> None:
        """Wake the callers that wait on this topic, once the batch has committed."""
        self._wakes.append(topic)

    # What the kernel uses.

    def admit(
        self,
        records: Mapping[Key, Record | None],
        owned: Iterable[Key],
        unreadable: Iterable[Key] = (),
    ) -> None:
        """Take in what a load returned; a key that is absent in the store maps to None."""
        self._records.update(records)
        self._owned.update(owned)
        self._unreadable.update(unreadable)
        self._pick_afresh()

    def admit_pick(self, pick: Pick[R], records: Sequence[R]) -> None:
        """Take in what a pick loaded. A record that it owns is newer than one that was only seen."""
        self._picks[pick.unlimited()] = candidates = Candidates(pick, records)
        self._picked_kinds.add(pick.kind)
        for key, record in candidates.loaded:
            if pick.own:
                self._records[key] = record
                self._owned.add(key)
            elif self._records.get(key) is None:
                self._records[key] = record
        self._pick_afresh()

    def knows(self, key: Key) -> bool:
        """Whether the record, or its absence, was loaded."""
        return key in self._records

    def owns(self, key: Key) -> bool:
        return key in self._owned

    def own(self, keys: Iterable[Key]) -> None:
        """Let commands change records that they only saw: the store says that no other process can."""
        self._owned.update(keys)

    def begin(self) -> None:
        """Start one command's staging."""
        self._undo.clear()
        self._marks = (len(self._wakes), len(self._changed), len(self._before), self._unwatched)

    def undo(self) -> None:
        """Forget what the command since `begin` staged."""
        wakes, changed, _, self._unwatched = self._marks
        for key, record, was_staged in reversed(self._undo):
            if isinstance(record, _Unknown):
                del self._records[key]
            else:
                self._records[key] = record
            if not was_staged:
                del self._before[key]
                self._added.pop(key, None)
        self._undo.clear()
        del self._wakes[wakes:]
        if len(self._changed) > changed:
            del self._changed[changed:]
            self._pick_afresh()

    @property
    def is_as_loaded(self) -> bool:
        """Whether the commands before this one changed no record that was asked for."""
        _, _, staged, unwatched = self._marks
        return staged == unwatched

    def changes(self) -> Changes:
        """What the whole batch staged."""
        owned: list[Key] = []
        updates: list[Update] = []
        deletes: list[tuple[Key, int]] = []
        for key, before in self._before.items():
            after = self._records[key]
            if before is None:
                if key not in self._added:
                    owned.append(key)
            elif after is None:
                deletes.append((key, before.version))
            else:
                updates.append(Update(key.kind, after, before.version, before))
        # Two servers that insert the same new keys in the same order wait for each other, not in a ring.
        owned.sort(key=lambda key: key.rank)
        inserts = [
            (key.kind, record) for key in (*self._added, *owned) if (record := self._records[key]) is not None
        ]
        return Changes(inserts, updates, deletes, frozenset(self._wakes))

    def _owned_key(self, kind: Kind[R], record: R) -> Key:
        key = Key(kind, record.tenant, record.id)
        if key not in self._owned and key not in self._before:
            raise self._early(f"{kind.name} {record.id} is not owned by the command")
        return key

    def _stage(self, key: Key, record: Record | None) -> None:
        previous = self._records.get(key, _UNKNOWN)
        is_staged = key in self._before
        self._undo.append((key, previous, is_staged))
        if not is_staged:
            self._before[key] = None if isinstance(previous, _Unknown) else previous
        self._records[key] = record
        if key.kind in self._picked_kinds:
            self._changed.append(key)

    def _pick_afresh(self) -> None:
        """Some changes were undone, or picked records may have changed before they were locked."""
        for candidates in self._picks.values():
            candidates.start_over()

    def _early(self, what: str) -> Exception:
        return NotLoaded(f"{what}; declare it there") if self.is_as_loaded else Deferred(what)

    def _others_changed(self, kind: Kind[Any]) -> bool:
        return any(key.kind is kind for key in self._changed[: self._marks[1]])


class Candidates(Generic[R]):
    """The records one pick may choose from: those it loaded, and those the batch changed so that they fit.

    A pick that loaded as many as it asked for knows nothing of what sorts after its last record, so a
    changed record beyond that horizon is no candidate: something unseen may come before it. `records` match at the
    world's time, as they were loaded.
    """

    def __init__(self, pick: Pick[R], records: Sequence[R]) -> None:
        ordered = sorted(records, key=pick.sort_key)
        self.is_full = len(ordered) >= pick.limit
        self.last: R | None = ordered[-1] if ordered and self.is_full else None
        self._horizon: Any = pick.sort_key(self.last) if self.last is not None else None
        self.loaded = [(pick.kind.key_of(record), record) for record in ordered]
        self._skip = 0
        self._read = 0
        self._changed: dict[Key, None] = {}
        # Many commands of a batch ask before any of them changes something; all get the same answer.
        self._chosen: tuple[R, ...] = ()
        self._chosen_at = (-1, -1)

    def start_over(self) -> None:
        """Forget which changes were seen: some were undone, or more was loaded."""
        self._skip = self._read = 0
        self._changed.clear()
        self._chosen_at = (-1, -1)

    def choose(
        self,
        pick: Pick[R],
        records: Mapping[Key, Any],
        staged: Mapping[Key, object],
        changes: Sequence[Key],
        now: datetime,
    ) -> tuple[R, ...]:
        """The first `pick.limit` that match now. `changes` is the batch's log of changed keys."""
        asked_at = (pick.limit, len(changes))
        if asked_at == self._chosen_at:
            return self._chosen
        self._learn(pick, records, changes, now)
        loaded = self.loaded
        while self._skip < len(loaded) and loaded[self._skip][0] in staged:
            self._skip += 1
        untouched = (one for one in islice(loaded, self._skip, None) if one[0] not in staged)
        # A record that was loaded again with its lock may differ by now.
        matching = (
            record
            for key, as_loaded in untouched
            if (record := records[key]) is as_loaded or pick.matches(record, now)
        )
        found: list[R] = list(islice(matching, pick.limit))
        if self._changed:
            found.extend(records[key] for key in self._changed)
            found.sort(key=pick.sort_key)
        self._chosen, self._chosen_at = tuple(found[: pick.limit]), asked_at
        return self._chosen

    def _learn(
        self, pick: Pick[R], records: Mapping[Key, Any], changes: Sequence[Key], now: datetime
    ) -> None:
        for key in islice(changes, self._read, None):
            if key.kind is not pick.kind:
                continue
            record = records[key]
            if record is not None and pick.matches(record, now) and self._is_in_sight(pick, record):
                self._changed[key] = None
            else:
                self._changed.pop(key, None)
        self._read = len(changes)

    def _is_in_sight(self, pick: Pick[R], record: R) -> bool:
        return not self.is_full or (self._horizon is not None and pick.sort_key(record) <= self._horizon)


T_co = TypeVar("T_co", covariant=True)


class Command(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """One decision. Pure: the same world and the same fields always give the same answer."""

    def reads(self) -> Reads:
        """The records this command needs, known before anything is loaded."""
        raise NotImplementedError

    def more(self, world: World) -> Reads:
        """The further records that it needs, after the first load. Asked once."""
        return NOTHING

    def decide(self, world: World) -> T_co:
        """Stage the changes and return the result, or raise a `Refusal`."""
        raise NotImplementedError

    def refused(self, world: World, refusal: Refusal) -> None:
        """Stage what a refusal leaves behind (an audit entry, a conflict). Nothing else of it stays."""
