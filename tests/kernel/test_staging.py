"""What a command stages: seen by those behind it in the batch, taken back whole if it refuses, written in one order."""

from __future__ import annotations

import msgspec

from interlock.kernel.command import Command
from interlock.kernel.record import Reads, micros
from interlock.kernel.world import World
from tests.kernel.counter_room import (
    CHORES,
    COUNTERS,
    TENANT,
    Chore,
    Counter,
    Drop,
    DueChores,
    Follow,
    Gone,
    Look,
    PlanFresh,
    Point,
    Raise,
    Take,
)
from tests.kernel.scripted_store import START, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time

LONG_AGO = micros(START) - 1_000_000


class RaiseTwiceAndRefuse(Raise, frozen=True, kw_only=True):
    def decide(self, world: World) -> Counter:
        super().decide(world)
        super().decide(world)
        raise Gone


class Add(Command[Counter], frozen=True, kw_only=True):
    """Adds a counter under an id of the caller's, and refuses if told to."""

    name: str
    leads_to: str | None = None
    regrets: bool = False

    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> Counter:
        added = world.add(COUNTERS, Counter(tenant=TENANT, id=self.name, leads_to=self.leads_to))
        if self.regrets:
            raise Gone
        return added


class TakeOne(Command[Chore], frozen=True, kw_only=True):
    """Takes the chore longest due; where there is none its second reads refuse."""

    def reads(self) -> Reads:
        return Reads(picks=(DueChores(limit=1),))

    def more(self, world: World) -> Reads:
        if not world.pick(DueChores(limit=1)):
            raise Gone
        return Reads()

    def decide(self, world: World) -> Chore:
        (chore,) = world.pick(DueChores(limit=1))
        return world.put(CHORES, msgspec.structs.replace(chore, due=None))


@in_virtual_time
async def test_a_refusal_takes_back_every_change_of_a_record_that_changed_twice() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="a"))
        refused, seen, raised = await b.outcomes(
            RaiseTwiceAndRefuse(name="a"), Look(name="a"), Raise(name="a")
        )
        assert isinstance(refused, Gone)
        assert (seen, raised.count, raised.version) == (1, 2, 2)
        # At once: the store would have refused to write on top of what was never there.
        assert b.watched.reruns == []


@in_virtual_time
async def test_an_id_that_a_refused_command_added_can_be_added() -> None:
    async with scripted_kernel() as b:
        refused, added = await b.outcomes(Add(name="a", regrets=True), Add(name="a"))
        assert isinstance(refused, Gone)
        assert added.version == 1
        assert await b.store.inner.get(COUNTERS, TENANT, "a") == added


@in_virtual_time
async def test_a_refusal_is_judged_again_if_a_neighbour_added_the_record_that_was_missing() -> None:
    async with scripted_kernel() as b:
        _, followed = await b.outcomes(Add(name="sign", leads_to="target"), Follow(name="sign"))
        assert followed.count == 1


@in_virtual_time
async def test_a_refusal_is_judged_again_if_one_neighbour_regretted_and_another_changed_something() -> None:
    async with scripted_kernel() as b:
        _, _, followed = await b.outcomes(
            Add(name="regretted", regrets=True), Point(name="sign", at="target"), Follow(name="sign")
        )
        assert followed.count == 1


@in_virtual_time
async def test_a_refusal_is_judged_again_if_a_neighbour_added_something_to_pick() -> None:
    async with scripted_kernel() as b:
        made, taken = await b.outcomes(PlanFresh(due=LONG_AGO), TakeOne())
        assert taken.id == made.id


@in_virtual_time
async def test_a_batch_that_only_removes_is_written() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="a"))
        assert await b.kernel.run(Drop(name="a")) == 1
        assert await b.counts("a") == [None]


@in_virtual_time
async def test_takers_who_find_all_they_ask_for_share_a_batch() -> None:
    async with scripted_kernel() as b:
        await b.outcomes(*(PlanFresh(due=LONG_AGO + n) for n in range(5)))
        taken = await b.outcomes(Take(who="v", most=2), Take(who="w", most=2))
        assert [len(chores) for chores in taken] == [2, 2]
        assert b.watched.sizes == [5, 2]


def test_new_records_are_written_in_the_one_order_that_every_server_has() -> None:
    world = World(START, lambda prefix: prefix)
    keys = [
        CHORES.key("zeta", "a"),
        COUNTERS.key(TENANT, "b"),
        COUNTERS.key(TENANT, "c"),
        COUNTERS.key("zeta", "a"),
    ]
    world.admit(dict.fromkeys(keys), keys)
    for kind, tenant, name in reversed(keys):
        world.put(kind, kind.record(tenant=tenant, id=name))
    assert [kind.key_of(record) for kind, record in world.changes().inserts] == keys


def test_a_record_that_is_made_anew_counts_on_from_the_version_that_is_stored() -> None:
    world = World(START, lambda prefix: prefix)
    key = COUNTERS.key(TENANT, "a")
    world.admit({key: Counter(tenant=TENANT, id="a", version=7)}, [key])
    assert world.put(COUNTERS, Counter(tenant=TENANT, id="a", count=1)).version == 8


def test_what_is_read_for_one_find_is_not_taken_for_what_another_needs() -> None:
    world = World(START, lambda prefix: prefix)
    one, other = ((Counter(tenant=TENANT, id=name),) for name in "ab")

    def named(found: tuple[Counter, ...]) -> Reads:
        return Reads(see=tuple(COUNTERS.key_of(counter) for counter in found))

    assert world.once(named, one) is world.once(named, one)
    assert world.once(named, other).see == (COUNTERS.key(TENANT, "b"),)
