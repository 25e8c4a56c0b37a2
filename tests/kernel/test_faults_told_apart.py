"""Busy, unavailable and overloaded never stand for each other, and nobody is left without an answer."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.refusal import LockBusy, OutcomeUnknown, Overloaded, StoreUnavailable
from interlock.kernel.storage import LockTimeout, StoreDown, Transaction
from tests.kernel.counter_room import COUNTERS, TENANT, Raise
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


class ForgetfulStore(ScriptedStore):
    """Takes a batch, says that all is well, and has decided nothing."""

    forgets = True

    async def transact(self, transaction: Transaction) -> None:
        if self.forgets:
            self.forgets = False
        else:
            await super().transact(transaction)


@in_virtual_time
async def test_a_batch_that_the_store_did_not_decide_is_answered_and_the_next_one_is_carried() -> None:
    async with scripted_kernel(ForgetfulStore()) as b:
        outcomes = await b.outcomes(Raise(name="a"), Raise(name="a"))
        assert all(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        assert (await b.kernel.run(Raise(name="a"))).count == 1


@in_virtual_time
async def test_a_record_held_after_an_outage_is_busy() -> None:
    async with scripted_kernel() as b:
        b.store.fail_next(StoreDown("the connection was cut"))
        await b.kernel.run(Raise(name="a"))
        assert b.watched.reruns == ["store_down"]
        b.store.held = {COUNTERS.key(TENANT, "held")}
        with pytest.raises(LockBusy):
            await b.kernel.run(Raise(name="held"))


@pytest.mark.parametrize("before", [None, LockTimeout("another process writes"), StoreDown("cut")])
@in_virtual_time
async def test_a_call_without_time_for_an_idle_store_was_not_reached(before: Exception | None) -> None:
    async with scripted_kernel() as b:
        if before:
            b.store.fail_next(before)
        await b.kernel.run(Raise(name="a"))
        await asyncio.sleep(60)
        with pytest.raises(Overloaded):
            await b.kernel.run(Raise(name="a"), acquire_seconds=0)


@in_virtual_time
async def test_one_lane_that_hangs_is_no_outage_while_another_answers() -> None:
    async with scripted_kernel(ScriptedStore(lanes=2)) as b:
        b.store.hang()
        hanging = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.01)
        b.store._hangs = False
        b.store.held = {COUNTERS.key(TENANT, "held")}
        with pytest.raises(LockBusy):
            await b.kernel.run(Raise(name="held"))
        b.store.never_again.set()
        await hanging


@in_virtual_time
async def test_a_store_that_went_away_while_it_was_locked_is_an_outage_and_then_a_lock_again() -> None:
    async with scripted_kernel() as b:
        b.store.refuse_when(lambda _: LockTimeout("another process writes"))
        await b.outcomes(Raise(name="a"))
        b.store.up = False
        with pytest.raises(StoreUnavailable):
            await b.kernel.run(Raise(name="a"))
        b.store.up = True
        with pytest.raises(LockBusy):
            await b.kernel.run(Raise(name="a"))


@in_virtual_time
async def test_the_store_may_wait_for_a_lock_for_a_moment_and_no_longer_than_its_most_hurried_command() -> (
    None
):
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="a"))
        calls = (b.kernel.run(Raise(name="a"), acquire_seconds=seconds) for seconds in (9, 0.05, 7))
        await asyncio.gather(*calls)
        await b.kernel.run(Raise(name="a"), acquire_seconds=0.001)
        granted = [transaction.acquire_seconds for transaction in b.store.transactions]
        assert granted == [0.1, pytest.approx(0.05), 0.01]


@in_virtual_time
async def test_lost_commits_are_counted_and_commits_are_timed() -> None:
    async with scripted_kernel() as b:
        await asyncio.sleep(60)
        b.store.lose_commit(happened=True)
        await b.kernel.run(Raise(name="a"))
        assert b.watched.reruns == ["commit_unknown"]
        assert b.watched.seconds == [pytest.approx(2 * b.store.batch_seconds)]


@pytest.mark.parametrize("trouble", ["down", "read-only", "locked", "held"])
@in_virtual_time
async def test_whoever_meets_trouble_is_told_to_wait_for_as_long_as_it_has_lasted(trouble: str) -> None:
    async with scripted_kernel() as b:
        await b.kernel.run(Raise(name="a"))
        await asyncio.sleep(600)
        if trouble == "down":
            b.store.up = False
        elif trouble == "read-only":
            b.store.refuse_when(lambda _: StoreDown("it answers, and takes no writes"))
        elif trouble == "locked":
            b.store.refuse_when(lambda _: LockTimeout("another process writes"))
        else:
            b.store.held = {COUNTERS.key(TENANT, "a")}
        with pytest.raises(LockBusy if trouble in ("locked", "held") else StoreUnavailable) as raised:
            await b.kernel.run(Raise(name="a"), acquire_seconds=5)
        assert raised.value.retry_after_seconds == pytest.approx(5, abs=0.5)


@in_virtual_time
async def test_whoever_waited_for_a_record_before_the_store_was_locked_counts_from_then() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "a")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="a"), acquire_seconds=10))
        await asyncio.sleep(8)
        b.store.refuse_when(lambda _: LockTimeout("another process writes"))
        with pytest.raises(LockBusy) as raised:
            await waiting
        assert raised.value.retry_after_seconds == pytest.approx(10, abs=0.5)


@in_virtual_time
async def test_trouble_that_comes_again_is_not_counted_from_the_first_time() -> None:
    async with scripted_kernel() as b:
        for pause in (0, 600):
            await asyncio.sleep(pause)
            b.store.up = False
            with pytest.raises(StoreUnavailable) as raised:
                await b.kernel.run(Raise(name="a"))
            b.store.up = True
            await b.kernel.run(Raise(name="a"))
        assert raised.value.retry_after_seconds == pytest.approx(2, abs=0.5)
