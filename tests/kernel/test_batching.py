"""What one commit carries, in which order, and what one command can do to its neighbours."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from interlock.kernel.batch import CommandQueue, Pending
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.record import Reads
from interlock.kernel.refusal import CommandFailed, Refusal
from interlock.kernel.world import Command, World
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Look, Raise, Swap, TooHigh
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


class Broken(Command[None], frozen=True, kw_only=True):
    """Stages a change, then fails as no command should."""

    name: str

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, self.name),))

    def decide(self, world: World) -> None:
        world.put(COUNTERS, Counter(tenant=TENANT, id=self.name, count=99))
        world.wake("broken")
        raise ZeroDivisionError


class Now(Command[datetime], frozen=True, kw_only=True):
    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> datetime:
        return world.now


class Unreadable(Command[None], frozen=True, kw_only=True):
    def reads(self) -> Reads:
        raise ZeroDivisionError


@in_virtual_time
async def test_a_lone_command_is_a_batch_of_one_and_waits_for_nobody() -> None:
    async with scripted_kernel(ScriptedStore(batch_seconds=0)) as b:
        before = asyncio.get_running_loop().time()
        await b.kernel.run(Raise(name="a"))
        assert b.watched.sizes == [1]
        assert asyncio.get_running_loop().time() == before


@in_virtual_time
async def test_a_burst_shares_one_commit() -> None:
    async with scripted_kernel() as b:
        await b.outcomes(*(Raise(name=f"c{n}") for n in range(64)))
        assert b.watched.sizes == [64]


@in_virtual_time
async def test_lanes_that_are_idle_together_share_a_burst() -> None:
    async with scripted_kernel(ScriptedStore(lanes=2)) as b:
        await b.outcomes(*(Raise(name=f"c{n}") for n in range(100)))
        assert sorted(b.watched.sizes) == [50, 50]
        assert len(b.store.transactions) == 2


@in_virtual_time
async def test_a_few_commands_are_not_worth_sharing() -> None:
    async with scripted_kernel(ScriptedStore(lanes=2)) as b:
        await b.outcomes(*(Raise(name=f"c{n}") for n in range(20)))
        assert b.watched.sizes == [20]


@in_virtual_time
async def test_requests_that_are_already_here_share_the_batch_of_the_first() -> None:
    async with scripted_kernel(ScriptedStore(batch_seconds=0)) as b:

        async def after_turns(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await b.kernel.run(Raise(name=f"c{turns}"))

        await asyncio.gather(*(after_turns(turns) for turns in range(3)))
        assert b.watched.sizes == [3]


@in_virtual_time
async def test_what_arrives_during_a_batch_makes_the_next_one() -> None:
    async with scripted_kernel() as b:
        first = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(b.store.batch_seconds / 2)
        await b.outcomes(*(Raise(name="a") for _ in range(5)))
        await first
        assert b.watched.sizes == [1, 5]


@in_virtual_time
async def test_a_batch_is_bounded() -> None:
    async with scripted_kernel(limits=KernelLimits(batch_max=10)) as b:
        await b.outcomes(*(Raise(name="a") for _ in range(25)))
        assert b.watched.sizes == [10, 10, 5]


@in_virtual_time
async def test_a_batch_is_bounded_by_bytes_too_but_carries_one_command_of_any_size() -> None:
    async with scripted_kernel(limits=KernelLimits(batch_bytes_max=1000)) as b:
        weights = (400, 600, 1, 5000, 999, 1)
        await asyncio.gather(*(b.kernel.run(Raise(name="a"), weight=weight) for weight in weights))
        assert b.watched.sizes == [2, 1, 1, 2]


@in_virtual_time
async def test_commands_of_a_batch_are_decided_in_the_order_of_their_arrival() -> None:
    async with scripted_kernel() as b:
        outcomes = await b.outcomes(*(Raise(name="a", limit=3) for _ in range(5)))
        assert [outcome.count for outcome in outcomes[:3]] == [1, 2, 3]
        assert all(isinstance(outcome, TooHigh) for outcome in outcomes[3:])
        assert b.watched.sizes == [5]


@in_virtual_time
async def test_versions_count_every_change_of_a_batch() -> None:
    async with scripted_kernel() as b:
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(3)))
        assert [outcome.version for outcome in outcomes] == [1, 2, 3]
        stored = await b.store.inner.get(COUNTERS, TENANT, "a")
        assert stored == outcomes[2]


@in_virtual_time
async def test_a_refusal_undoes_its_own_staging_and_leaves_only_its_entry() -> None:
    async with scripted_kernel() as b:
        done, refused, after = await b.outcomes(
            Raise(name="a"), Raise(name="a", by=5, limit=3), Raise(name="a")
        )
        assert (done.count, after.count) == (1, 2)
        assert isinstance(refused, TooHigh)
        assert b.notes() == ["raised a", "refused a", "raised a"]


@in_virtual_time
async def test_a_batch_of_refusals_alone_still_commits_their_entries() -> None:
    async with scripted_kernel() as b:
        outcomes = await b.outcomes(Raise(name="a", limit=0), Raise(name="b", limit=0))
        assert all(isinstance(outcome, TooHigh) for outcome in outcomes)
        assert b.notes() == ["refused a", "refused b"]
        assert await b.counts("a", "b") == [None, None]


@in_virtual_time
async def test_undo_takes_back_what_was_staged_on_top_of_a_neighbours_change() -> None:
    async with scripted_kernel() as b:
        await b.outcomes(Raise(name="a", by=7), Swap(first="a", second="nowhere"), Raise(name="a"))
        assert await b.counts("a", "nowhere") == [8, None]


@in_virtual_time
async def test_a_command_that_breaks_fails_alone_and_leaves_nothing() -> None:
    async with scripted_kernel() as b:
        heard = b.kernel.wakes.subscribe("broken")
        with heard:
            done, failed, after = await b.outcomes(Raise(name="a"), Broken(name="a"), Raise(name="a"))
            assert (done.count, after.count) == (1, 2)
            assert isinstance(failed, CommandFailed)
            assert isinstance(failed.__cause__, ZeroDivisionError)
            assert not await heard.wait(1)
        assert b.watched.sizes == [3]


class ForgetsItsEntry(Raise, frozen=True, kw_only=True):
    def refused(self, world: World, refusal: Refusal) -> None:
        super().refused(world, refusal)
        raise ZeroDivisionError


@in_virtual_time
async def test_a_refusal_whose_entry_cannot_be_written_is_not_given_out_as_one() -> None:
    async with scripted_kernel() as b:
        failed, done = await b.outcomes(ForgetsItsEntry(name="a", limit=0), Raise(name="b"))
        assert isinstance(failed, CommandFailed)
        assert done.count == 1
        assert b.notes() == ["raised b"]
        assert b.watched.sizes == [2]


@in_virtual_time
async def test_a_command_that_cannot_say_what_it_reads_is_never_queued() -> None:
    async with scripted_kernel() as b:
        with pytest.raises(CommandFailed):
            await b.kernel.run(Unreadable())
        assert b.store.transactions == []


@in_virtual_time
async def test_a_batch_has_one_clock_and_the_next_one_a_later_one() -> None:
    async with scripted_kernel() as b:
        first, second, *_ = await b.outcomes(Now(), Now(), Raise(name="a"), Now())
        assert first == second
        await asyncio.sleep(5)
        assert (await b.kernel.run(Now()) - first).total_seconds() >= 5


@in_virtual_time
async def test_a_command_sees_what_the_ones_before_it_in_the_batch_decided() -> None:
    async with scripted_kernel() as b:
        assert (await b.outcomes(Look(name="a"), Raise(name="a"), Look(name="a")))[2] == 1
        assert b.watched.sizes == [3]


@in_virtual_time
async def test_added_records_keep_the_order_of_arrival_whatever_their_ids() -> None:
    async with scripted_kernel() as b:
        downwards = (f"{number:03d}" for number in range(999, 0, -1))
        kernel = Kernel(b.store, new_id=lambda prefix: f"{prefix}_{next(downwards)}")
        kernel.start()
        await asyncio.gather(*(kernel.run(Raise(name=name)) for name in "abc"))
        await kernel.close()
        assert b.notes() == ["raised a", "raised b", "raised c"]


@in_virtual_time
async def test_a_caller_that_goes_away_stops_no_decision_under_way() -> None:
    async with scripted_kernel() as b:
        leaving = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(b.store.batch_seconds / 2)
        leaving.cancel()
        await asyncio.sleep(1)
        assert await b.counts("a") == [1]


@in_virtual_time
async def test_a_caller_that_goes_away_while_queued_is_not_carried() -> None:
    async with scripted_kernel() as b:
        busy = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(b.store.batch_seconds / 2)
        leaving = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(0)
        leaving.cancel()
        await busy
        await asyncio.sleep(1)
        assert await b.counts("a") == [1]


@in_virtual_time
async def test_a_command_that_must_go_alone_ends_the_batch_before_it() -> None:
    waiting = CommandQueue(count_max=9, bytes_max=9, batch_bytes_max=9, spent=lambda spent, now: None)
    loop = asyncio.get_running_loop()
    first, lonely, last = (
        Pending(Raise(name=name), loop.create_future(), now=0.0, budget=1.0, weight=0) for name in "abc"
    )
    lonely.alone = True
    for pending in (first, lonely, last):
        waiting.add(pending)
    assert [waiting.take(9) for _ in range(3)] == [[first], [lonely], [last]]
