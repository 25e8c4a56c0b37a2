"""What a command may read: what it named, once more after the first load, and nothing else."""

from __future__ import annotations

import pytest

from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import CommandFailed
from interlock.kernel.world import NotLoaded, World
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, DueChores, Follow, Gone, Look, Point, Raise
from tests.kernel.scripted_store import scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


class Peek(Command[int], frozen=True, kw_only=True):
    """Reads what it did not name."""

    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> int:
        counter = world.get(COUNTERS, TENANT, "secret")
        return counter.count if counter else 0


class Meddle(Command[Counter], frozen=True, kw_only=True):
    """Changes what it only sees."""

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, "a"),))

    def decide(self, world: World) -> Counter:
        return world.put(COUNTERS, Counter(tenant=TENANT, id="a", count=1))


class PickUnasked(Command[int], frozen=True, kw_only=True):
    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> int:
        return len(world.pick(DueChores(limit=1)))


class Reuse(Command[Counter], frozen=True, kw_only=True):
    """Adds under an id that is taken."""

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, "a"),))

    def decide(self, world: World) -> Counter:
        return world.add(COUNTERS, Counter(tenant=TENANT, id="a"))


@pytest.mark.parametrize("command", [Peek(), Meddle(), PickUnasked()])
@in_virtual_time
async def test_what_was_not_named_cannot_be_used(command: Command[object]) -> None:
    async with scripted_kernel() as b:
        (failed,) = await b.outcomes(command)
        assert isinstance(failed, CommandFailed)
        assert isinstance(failed.__cause__, NotLoaded)


@in_virtual_time
async def test_what_was_not_named_cannot_be_used_behind_a_neighbours_change_either() -> None:
    async with scripted_kernel() as b:
        done, failed = await b.outcomes(Raise(name="a"), Peek())
        assert done.count == 1
        assert isinstance(failed, CommandFailed)


@in_virtual_time
async def test_an_id_that_exists_cannot_be_added() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="a"))
        (failed,) = await b.outcomes(Reuse())
        assert isinstance(failed, CommandFailed)


@in_virtual_time
async def test_the_second_reads_can_own_what_the_first_ones_lead_to() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="target"))
        assert (await b.kernel.run(Follow(name="sign"))).count == 1
        assert await b.counts("target") == [1]


@in_virtual_time
async def test_a_record_that_was_seen_can_be_owned_by_the_second_reads() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="self", at="self"))
        followed = await b.kernel.run(Follow(name="self"))
        assert (followed.count, followed.version) == (1, 2)


@in_virtual_time
async def test_second_reads_that_a_neighbour_made_stale_are_asked_again() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="old"))
        pointed, followed, looked = await b.outcomes(
            Point(name="sign", at="new"), Follow(name="sign"), Look(name="new")
        )
        assert pointed.leads_to == "new"
        assert followed.id == "new"
        assert looked in (None, 1)
        assert await b.counts("old", "new") == [None, 1]


@in_virtual_time
async def test_a_refusal_of_the_second_reads_leaves_its_entry() -> None:
    async with scripted_kernel() as b:
        (refused,) = await b.outcomes(Follow(name="nowhere"))
        assert isinstance(refused, Gone)
        assert b.notes() == ["refused to follow nowhere"]


@in_virtual_time
async def test_a_refusal_of_the_second_reads_is_judged_again_if_a_neighbour_changed_something() -> None:
    async with scripted_kernel() as b:
        _, followed = await b.outcomes(Point(name="sign", at="target"), Follow(name="sign"))
        assert followed.count == 1
        assert b.notes() == []
