"""Commands that a batch leaves for a later one, and second reads that go wrong: nothing of them stays behind."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from interlock.kernel.batch import Batch
from interlock.kernel.command import Command
from interlock.kernel.pending import Pending
from interlock.kernel.record import Key, Reads, micros
from interlock.kernel.refusal import CommandFailed, LockBusy, OutcomeUnknown, Refusal
from interlock.kernel.storage import CommitUnconfirmed, Loaded
from interlock.kernel.world import World
from tests.kernel.counter_room import (
    COUNTERS,
    TENANT,
    CountDue,
    Counter,
    DueChores,
    Follow,
    Gone,
    Plan,
    Point,
    Raise,
    TooHigh,
    counter_topic,
    note,
)
from tests.kernel.scripted_store import START, ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time

LONG_AGO = micros(START) - 1_000_000


class NoteAndFollow(Follow, frozen=True, kw_only=True):
    """Stages a note and a wake-up before it asks for what it may have to wait for."""

    def decide(self, world: World) -> Counter:
        note(world, f"follows {self.name}")
        world.wake(counter_topic(self.name))
        return super().decide(world)


class RefuseAndFollow(NoteAndFollow, frozen=True, kw_only=True):
    """Refuses, and leaves behind what `NoteAndFollow` decides."""

    def decide(self, world: World) -> Counter:
        raise TooHigh(0)

    def refused(self, world: World, refusal: Refusal) -> None:
        super().decide(world)


class DecideAnyway(Command[str], frozen=True, kw_only=True):
    """Has second reads that go wrong, and asks for nothing when it decides."""

    error: Exception

    def reads(self) -> Reads:
        return Reads()

    def more(self, world: World) -> Reads:
        raise self.error

    def decide(self, world: World) -> str:
        return "decided"


class OwnAndFollow(Follow, frozen=True, kw_only=True):
    """Owns the counter that leads to the other one."""

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.name),))


class CountDueLater(CountDue, frozen=True, kw_only=True):
    """Asks for what is due in its second reads."""

    def reads(self) -> Reads:
        return Reads()

    def more(self, world: World) -> Reads:
        return Reads(picks=(DueChores(limit=self.most, own=False),))


@in_virtual_time
async def test_what_a_command_staged_before_it_was_left_for_later_is_written_once() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="old"))
        _, followed = await b.outcomes(Point(name="sign", at="new"), NoteAndFollow(name="sign"))
        assert followed.id == "new"
        assert b.notes() == ["follows sign"]
        assert await b.counts("old", "new") == [None, 1]
        # To be left for later is no failure of the batch, which would be carried again in halves.
        assert len(b.store.transactions) == 3


@in_virtual_time
async def test_what_a_refusal_staged_before_it_was_left_for_later_is_written_once() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="old"))
        _, refused = await b.outcomes(Point(name="sign", at="new"), RefuseAndFollow(name="sign"))
        assert isinstance(refused, TooHigh)
        assert b.notes() == ["follows sign"]
        assert await b.counts("old", "new") == [None, 1]
        assert len(b.store.transactions) == 3


@in_virtual_time
async def test_whoever_was_left_for_later_by_a_batch_of_unknown_outcome_gets_its_own_answer() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="old"))
        b.store.fail_after_commit(CommitUnconfirmed("a standby did not answer"))
        unknown, followed = await b.outcomes(Point(name="sign", at="new"), Follow(name="sign"))
        assert isinstance(unknown, OutcomeUnknown)
        assert followed.id == "new"


@in_virtual_time
async def test_whoever_was_left_for_later_and_has_no_time_left_is_told_that_others_were_in_its_way() -> None:
    async with scripted_kernel(ScriptedStore(batch_seconds=1.0)) as b:
        await b.kernel.run(Point(name="sign", at="old"))
        moving = asyncio.create_task(b.kernel.run(Point(name="sign", at="new")))
        await asyncio.sleep(0)
        with pytest.raises(LockBusy):
            await b.kernel.run(Follow(name="sign"), acquire_seconds=0.5)
        await moving


@in_virtual_time
async def test_a_command_whose_second_reads_break_fails_alone_and_is_not_decided() -> None:
    async with scripted_kernel() as b:
        failed, done = await b.outcomes(DecideAnyway(error=ZeroDivisionError()), Raise(name="a"))
        assert isinstance(failed, CommandFailed)
        assert isinstance(failed.__cause__, ZeroDivisionError)
        assert done.count == 1
        assert b.watched.sizes == [2]


@in_virtual_time
async def test_a_command_whose_second_reads_refuse_is_not_decided() -> None:
    async with scripted_kernel() as b:
        (refused,) = await b.outcomes(DecideAnyway(error=Gone()))
        assert isinstance(refused, Gone)


@in_virtual_time
async def test_a_pick_of_the_first_reads_keeps_its_reach_if_a_neighbour_asks_for_it_in_the_second() -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Point(name="sign", at="target"))
        await b.outcomes(*(Plan(name=f"c{n}", due=LONG_AGO + n) for n in range(3)))
        due, later, followed = await b.outcomes(CountDue(most=3), CountDueLater(most=1), Follow(name="sign"))
        assert (due, later, followed.count) == (3, 1, 1)


def test_a_command_that_waits_for_a_record_holds_up_nothing_else_meanwhile() -> None:
    held = COUNTERS.key(TENANT, "held")
    sign = Counter(tenant=TENANT, id="held", version=1, leads_to="target")
    member = Pending(OwnAndFollow(name="held"), cast("Any", None), now=0.0, budget=1.0, weight=0)
    batch = Batch("batch_1", [member], str)
    wanted = batch.more(Loaded(START, {held: sign}, busy=frozenset({held})))
    assert wanted == Reads()
    batch.decide(None)
    assert batch.blocked == [member]


def test_a_batch_that_is_decided_again_starts_over() -> None:
    key = COUNTERS.key(TENANT, "a")
    member = Pending(Raise(name="a"), cast("Any", None), now=0.0, budget=1.0, weight=0)
    batch = Batch("batch_1", [member], str)
    for busy in (frozenset({key}), frozenset[Key]()):
        batch.more(Loaded(START, {key: None}, busy=busy))
        changes = batch.decide(None)
    assert batch.undecided == []
    assert batch.is_decided
    assert [record.version for _, record in changes.inserts] == [1, 1]
