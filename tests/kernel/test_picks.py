"""Bounded choices of records, while the commands of a batch take them from each other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from interlock.kernel.batch import Batch
from interlock.kernel.command import Command
from interlock.kernel.pending import Pending
from interlock.kernel.record import PICKED_MAX, Reads, merge_reads, micros
from interlock.kernel.storage import Loaded
from interlock.kernel.world import World
from tests.kernel.counter_room import CHORES, TENANT, Chore, CountDue, DueChores, Gone, Plan, PlanFresh, Take
from tests.kernel.scripted_store import START, ScriptedKernel, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time

LONG_AGO = micros(START) - 1_000_000
FAR_OFF = micros(START) + 10**12


async def plan(b: ScriptedKernel, count: int) -> None:
    await b.outcomes(*(Plan(name=f"c{n}", due=LONG_AGO + n) for n in range(count)))


@in_virtual_time
async def test_a_pick_takes_the_first_in_its_order() -> None:
    async with scripted_kernel() as b:
        await b.outcomes(Plan(name="late", due=LONG_AGO + 9), Plan(name="early", due=LONG_AGO))
        assert await b.kernel.run(Take(who="w", most=1)) == ("early",)


@in_virtual_time
async def test_what_is_not_due_is_not_picked() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Plan(name="later", due=FAR_OFF))
        assert await b.kernel.run(Take(who="w", most=5)) == ()


@in_virtual_time
async def test_commands_of_one_batch_never_pick_the_same_record() -> None:
    async with scripted_kernel() as b:
        await plan(b, 10)
        taken = await b.outcomes(*(Take(who=f"w{n}", most=3) for n in range(4)))
        assert taken == [("c0", "c1", "c2"), ("c3", "c4", "c5"), ("c6", "c7", "c8"), ("c9",)]
        assert b.watched.sizes == [10, 4]


@in_virtual_time
async def test_picks_that_overlap_take_what_is_left_in_the_next_batch() -> None:
    async with scripted_kernel() as b:
        await plan(b, 4)
        # The look shares the taker's records, and there are more than it loaded.
        taken, due = await b.outcomes(Take(who="w", most=2), CountDue(most=2))
        assert (taken, due) == (("c0", "c1"), 2)


class TakeAndRegret(Take, frozen=True, kw_only=True):
    """Takes all there is, looks again, and refuses."""

    def decide(self, world: World) -> tuple[str, ...]:
        super().decide(world)
        assert world.pick(DueChores(limit=self.most)) == ()
        raise Gone


@in_virtual_time
async def test_what_a_refused_command_took_can_be_picked_again() -> None:
    async with scripted_kernel() as b:
        await plan(b, 2)
        refused, taken = await b.outcomes(TakeAndRegret(who="v", most=2), Take(who="w", most=2))
        assert isinstance(refused, Gone)
        assert taken == ("c0", "c1")


class MoveAndLook(Plan, frozen=True, kw_only=True):
    """Moves a chore, looks at what is due, and refuses if told to."""

    regrets: bool

    def reads(self) -> Reads:
        return super().reads() | Reads(picks=(DueChores(limit=3, own=False),))

    def decide(self, world: World) -> Any:
        super().decide(world)
        seen = tuple(chore.id for chore in world.pick(DueChores(limit=3, own=False)))
        if self.regrets:
            raise Gone
        return seen


@in_virtual_time
async def test_what_was_seen_before_a_refusal_is_not_seen_after_it() -> None:
    async with scripted_kernel() as b:
        await plan(b, 3)
        refused, seen = await b.outcomes(
            MoveAndLook(name="c0", due=FAR_OFF, regrets=True),
            MoveAndLook(name="c1", due=FAR_OFF, regrets=False),
        )
        assert isinstance(refused, Gone)
        assert seen == ("c0", "c2")


@in_virtual_time
async def test_a_record_changed_in_the_batch_is_picked_in_its_new_place() -> None:
    async with scripted_kernel() as b:
        await plan(b, 3)
        _, first = await b.outcomes(Plan(name="c0", due=LONG_AGO + 7), Take(who="w", most=3))
        assert first == ("c1", "c2", "c0")


@in_virtual_time
async def test_a_record_changed_so_that_it_no_longer_matches_is_not_picked() -> None:
    async with scripted_kernel() as b:
        await plan(b, 2)
        _, first = await b.outcomes(Plan(name="c0", due=FAR_OFF), Take(who="w", most=3))
        assert first == ("c1",)


@in_virtual_time
async def test_a_record_put_behind_others_that_were_not_loaded_waits_its_turn() -> None:
    async with scripted_kernel() as b:
        await plan(b, 5)
        # Only c0 is loaded by the pick; c1 to c4 come before where c0 goes.
        _, taken = await b.outcomes(Plan(name="c0", due=LONG_AGO + 100), Take(who="w", most=1))
        assert taken == ("c1",)


@in_virtual_time
async def test_a_record_added_in_the_batch_can_be_picked_in_it_and_is_stored_once() -> None:
    async with scripted_kernel() as b:
        made, taken = await b.outcomes(PlanFresh(due=LONG_AGO), Take(who="w", most=2))
        assert taken == (made.id,)
        assert await b.kernel.run(CountDue()) == 0


@in_virtual_time
async def test_a_look_shares_what_it_sees() -> None:
    async with scripted_kernel() as b:
        await plan(b, 3)
        assert await b.outcomes(CountDue(most=2), CountDue(most=2)) == [2, 2]


@in_virtual_time
async def test_due_is_judged_by_the_batchs_clock() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Plan(name="soon", due=micros(START) + 60_000_000))
        assert await b.kernel.run(CountDue()) == 0
        await asyncio.sleep(61)
        assert await b.kernel.run(CountDue()) == 1


def test_owning_picks_add_up_to_a_bound_and_looks_share() -> None:
    def limits(*picks: DueChores) -> list[int]:
        merged = merge_reads([Reads(picks=(pick,)) for pick in picks])
        return [pick.limit for pick in merged.picks]

    assert limits(DueChores(limit=2), DueChores(limit=3)) == [5]
    assert limits(DueChores(limit=2, own=False), DueChores(limit=3, own=False)) == [3]
    assert limits(DueChores(limit=2), DueChores(limit=3, own=False)) == [2, 3]
    assert limits(*(DueChores(limit=100) for _ in range(256))) == [PICKED_MAX]
    assert limits(DueChores(limit=2 * PICKED_MAX), DueChores(limit=1)) == [2 * PICKED_MAX]


class LookThenOwn(Command[tuple[str, ...]], frozen=True, kw_only=True):
    """Sees what is due, owns it in its second reads, and says what is due then."""

    pick: DueChores

    def reads(self) -> Reads:
        return Reads(picks=(self.pick,))

    def more(self, world: World) -> Reads:
        return Reads(own=tuple(CHORES.key_of(chore) for chore in world.pick(self.pick)))

    def decide(self, world: World) -> tuple[str, ...]:
        return tuple(chore.id for chore in world.pick(self.pick))


def test_what_somebody_took_before_it_was_owned_is_no_longer_picked() -> None:
    pick = DueChores(limit=3, own=False)
    seen = [Chore(tenant=TENANT, id=name, due=LONG_AGO, version=1) for name in ("a", "b")]
    member = Pending(LookThenOwn(pick=pick), cast("Any", None), now=0.0, budget=1.0, weight=0)
    batch = Batch("batch_1", [member], str)
    wanted = batch.more(Loaded(START, {}, [(pick, seen)]))
    taken = Chore(tenant=TENANT, id="a", due=None, taken_by="w", version=2)
    assert set(wanted.own) == {CHORES.key_of(chore) for chore in seen}
    batch.decide(Loaded(START, {CHORES.key_of(taken): taken, CHORES.key_of(seen[1]): seen[1]}))
    assert batch.outcomes[member] == ("b",)


def test_what_a_pick_finds_is_there_even_if_it_was_absent_a_moment_before() -> None:
    world = World(START, str)
    world.admit({CHORES.key(TENANT, "late"): None}, ())
    pick = DueChores(limit=1, own=False)
    chore = Chore(tenant=TENANT, id="late", due=1, version=1)
    world.admit_pick(pick, [chore])
    assert world.pick(pick) == (chore,)
