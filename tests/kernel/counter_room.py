"""A small room of the tests' own: counters that go up to a limit, notes of what happened, chores with a time.

Its kinds borrow the tables of real rooms, so that it runs on every store as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.idempotency import Once, Rendered
from interlock.kernel.record import Kind, Pick, Reads, Record, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World

TENANT = "acme"


class Counter(Record, frozen=True, kw_only=True):
    """`leads_to` names another counter, which `Follow` raises."""

    count: int = 0
    leads_to: str | None = None


class Note(Record, frozen=True, kw_only=True):
    """What happened to a counter, in order."""

    at: datetime
    text: str


class Chore(Record, frozen=True, kw_only=True):
    """Something to do once `due` has come; None once it is taken."""

    due: int | None = None
    taken_by: str | None = None


COUNTERS = Kind("counter", Counter, table="principals", columns=("kind",), values=lambda _: ("counter",))
NOTES = Kind(
    "note",
    Note,
    table="events",
    columns=("at", "type", "subject"),
    values=lambda note: (micros(note.at), "note", note.text),
)
CHORES = Kind(
    "chore",
    Chore,
    table="jobs",
    columns=("state", "topic", "due_at"),
    values=lambda chore: ("CHORE", "chores", chore.due),
)


class TooHigh(Refusal):
    def __init__(self, count: int) -> None:
        super().__init__(f"the counter is at {count} already; choose a higher limit")


class Gone(Refusal):
    def __init__(self) -> None:
        super().__init__("there is no such counter; raise it first")


def counter_topic(name: str) -> str:
    return f"counter:{name}"


def note(world: World, text: str) -> None:
    world.add(NOTES, Note(tenant=TENANT, id=world.new_id("note"), at=world.now, text=text))


class Raise(Command[Counter], frozen=True, kw_only=True):
    """Count up, make a note of it and wake the callers that watch; a refusal leaves a note only."""

    name: str
    by: int = 1
    limit: int | None = None

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.name),))

    def decide(self, world: World) -> Counter:
        counter = world.get(COUNTERS, TENANT, self.name) or Counter(tenant=TENANT, id=self.name)
        raised = world.put(COUNTERS, msgspec.structs.replace(counter, count=counter.count + self.by))
        note(world, f"raised {self.name}")
        world.wake(counter_topic(self.name))
        if self.limit is not None and raised.count > self.limit:
            raise TooHigh(counter.count)
        return raised

    def refused(self, world: World, refusal: Refusal) -> None:
        note(world, f"refused {self.name}")


class Look(Command[int | None], frozen=True, kw_only=True):
    """The count as it is now."""

    name: str

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, self.name),))

    def decide(self, world: World) -> int | None:
        counter = world.get(COUNTERS, TENANT, self.name)
        return counter.count if counter else None


class Point(Command[Counter], frozen=True, kw_only=True):
    """Make one counter lead to another."""

    name: str
    at: str

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.name),))

    def decide(self, world: World) -> Counter:
        counter = world.get(COUNTERS, TENANT, self.name) or Counter(tenant=TENANT, id=self.name)
        return world.put(COUNTERS, msgspec.structs.replace(counter, leads_to=self.at))


class Follow(Command[Counter], frozen=True, kw_only=True):
    """Raise the counter that another one leads to: known only after the first load."""

    name: str

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, self.name),))

    def more(self, world: World) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self._target(world)),))

    def decide(self, world: World) -> Counter:
        target = self._target(world)
        counter = world.get(COUNTERS, TENANT, target) or Counter(tenant=TENANT, id=target)
        return world.put(COUNTERS, msgspec.structs.replace(counter, count=counter.count + 1))

    def refused(self, world: World, refusal: Refusal) -> None:
        note(world, f"refused to follow {self.name}")

    def _target(self, world: World) -> str:
        counter = world.get(COUNTERS, TENANT, self.name)
        if counter is None or counter.leads_to is None:
            raise Gone
        return counter.leads_to


class Drop(Command[int], frozen=True, kw_only=True):
    """Remove a counter; the next raise begins anew."""

    name: str

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.name),))

    def decide(self, world: World) -> int:
        counter = world.get(COUNTERS, TENANT, self.name)
        if counter is None:
            raise Gone
        world.delete(COUNTERS, counter)
        return counter.count


class Swap(Command[tuple[int, int]], frozen=True, kw_only=True):
    """Exchange two counts: either both change or neither."""

    first: str
    second: str

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.first), COUNTERS.key(TENANT, self.second)))

    def decide(self, world: World) -> tuple[int, int]:
        first = world.get(COUNTERS, TENANT, self.first)
        if first is None:
            raise Gone
        second = world.get(COUNTERS, TENANT, self.second)
        # Staged before the second is checked: undo must take it back.
        world.put(COUNTERS, msgspec.structs.replace(first, count=second.count if second else 0))
        if second is None:
            raise Gone
        if self.first != self.second:
            world.put(COUNTERS, msgspec.structs.replace(second, count=first.count))
        return second.count, first.count


class DueChores(Pick[Chore], frozen=True, kw_only=True):
    """The chores longest due."""

    kind = CHORES
    query = "jobs.due_jobs"

    def params(self, now: datetime) -> Mapping[str, int]:
        return {"now": micros(now)}

    def matches(self, record: Chore, now: datetime) -> bool:
        return record.due is not None and record.due <= micros(now)

    def sort_key(self, record: Chore) -> Any:
        return (record.due, record.tenant, record.id)


class Plan(Command[Chore], frozen=True, kw_only=True):
    """Make a chore due at a moment, or again at another."""

    name: str
    due: int

    def reads(self) -> Reads:
        return Reads(own=(CHORES.key(TENANT, self.name),))

    def decide(self, world: World) -> Chore:
        before = world.get(CHORES, TENANT, self.name) or Chore(tenant=TENANT, id=self.name)
        return world.put(CHORES, msgspec.structs.replace(before, due=self.due, taken_by=None))


class PlanFresh(Command[Chore], frozen=True, kw_only=True):
    """Make a chore under a fresh id."""

    due: int

    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> Chore:
        return world.add(CHORES, Chore(tenant=TENANT, id=world.new_id("chore"), due=self.due))


class Take(Command[tuple[str, ...]], frozen=True, kw_only=True):
    """Take up to `most` due chores, the longest due first."""

    who: str
    most: int = 1

    def reads(self) -> Reads:
        return Reads(picks=(DueChores(limit=self.most),))

    def decide(self, world: World) -> tuple[str, ...]:
        due = world.pick(DueChores(limit=self.most))
        for chore in due:
            world.put(CHORES, msgspec.structs.replace(chore, due=None, taken_by=self.who))
        return tuple(chore.id for chore in due)


class CountDue(Command[int], frozen=True, kw_only=True):
    """How many chores are due, as far as `most` reaches; takes none."""

    most: int = 10

    def reads(self) -> Reads:
        return Reads(picks=(DueChores(limit=self.most, own=False),))

    def decide(self, world: World) -> int:
        return len(world.pick(DueChores(limit=self.most, own=False)))


def once(key: str, *, hours: float) -> Once[Counter]:
    return Once(
        inner=Raise(name="a"),
        tenant=TENANT,
        answer_id=key,
        request_digest="d",
        keep_for=timedelta(hours=hours),
        render=lambda counter: Rendered(200, str(counter.count).encode()),
    )
