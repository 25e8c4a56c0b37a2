"""A store that is gone or hangs: `StoreUnavailable` within the budget, never a hang, back by itself."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import OutcomeUnknown, StoreUnavailable
from interlock.kernel.storage import LockTimeout, StoreDown, Transaction
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Raise
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time

BUDGET = 2.0


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_a_store_that_is_down_ends_in_store_unavailable_within_the_budget() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(600)))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert BUDGET <= now() < BUDGET + 0.2


@in_virtual_time
async def test_nothing_is_lost_if_the_store_comes_back_within_the_budget() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        waiting = [asyncio.create_task(b.kernel.run(Raise(name="a"))) for _ in range(3)]
        await asyncio.sleep(1)
        b.store.up = True
        assert [outcome.count for outcome in await asyncio.gather(*waiting)] == [1, 2, 3]


@in_virtual_time
async def test_the_kernel_is_back_to_normal_as_soon_as_the_store_is() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        with pytest.raises(StoreUnavailable):
            await b.kernel.run(Raise(name="a"))
        await asyncio.sleep(60)
        b.store.up = True
        before = now()
        assert (await b.kernel.run(Raise(name="a"))).count == 1
        assert now() - before < 1


@in_virtual_time
async def test_a_single_break_off_is_carried_again_without_anybody_noticing() -> None:
    async with scripted_kernel() as b:
        b.store.fail_next(StoreDown("the connection was cut"))
        assert (await b.kernel.run(Raise(name="a"))).count == 1


@in_virtual_time
async def test_a_call_refused_for_an_outage_is_told_to_wait_about_as_long_as_it_has_lasted() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        await asyncio.gather(b.kernel.run(Raise(name="a")), return_exceptions=True)
        await asyncio.sleep(18)
        with pytest.raises(StoreUnavailable) as raised:
            await b.kernel.run(Raise(name="a"))
        assert raised.value.retry_after_seconds == pytest.approx(22, abs=1)


@in_virtual_time
async def test_commands_queued_behind_a_batch_that_hangs_are_answered_within_their_budget() -> None:
    async with scripted_kernel() as b:
        b.store.hang()
        under_way = asyncio.create_task(b.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.1)
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(5)))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert now() < 0.1 + BUDGET + 0.2
        assert not under_way.done()
        under_way.cancel()


@in_virtual_time
async def test_a_command_whose_batch_hangs_is_told_that_the_outcome_is_unknown() -> None:
    async with scripted_kernel(limits=KernelLimits(answer_seconds=10)) as b:
        b.store.hang()
        with pytest.raises(OutcomeUnknown):
            await b.kernel.run(Raise(name="a"))
        assert 10 <= now() < 10.2


@in_virtual_time
async def test_a_store_that_hangs_is_never_mistaken_for_a_lock() -> None:
    async with scripted_kernel(ScriptedStore(lanes=2)) as b:
        b.store.fail_next(LockTimeout("another process writes"))
        await b.kernel.run(Raise(name="a"))
        b.store.hang()
        under_way: list[asyncio.Task[Counter]] = []
        for _ in range(b.store.lanes):
            under_way.append(asyncio.create_task(b.kernel.run(Raise(name="a"))))
            await asyncio.sleep(0.01)
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(5)))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        for task in under_way:
            task.cancel()


@in_virtual_time
async def test_an_outage_after_a_wait_for_a_record_is_an_outage() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        await asyncio.sleep(1)
        b.store.up = False
        with pytest.raises(StoreUnavailable):
            await waiting


class PartingStore(ScriptedStore):
    """Cannot keep two commands together, and is in trouble as soon as the first of them comes alone."""

    def __init__(self, trouble: str) -> None:
        super().__init__()
        self._trouble = trouble
        self.refuse_when(self._part)

    def _part(self, transaction: Transaction) -> Exception | None:
        if len(transaction.reads.own) == 1:
            return None
        if self._trouble == "hangs":
            self.hang()
        self.up = False
        return ValueError("cannot keep these together")


@pytest.mark.parametrize("trouble", ["down", "hangs"])
@in_virtual_time
async def test_whoever_waits_behind_the_other_half_of_a_batch_is_answered_within_its_budget(
    trouble: str,
) -> None:
    async with scripted_kernel(PartingStore(trouble)) as b:
        first = asyncio.create_task(b.kernel.run(Raise(name="a")))
        (second,) = await b.outcomes(Raise(name="b"))
        assert isinstance(second, StoreUnavailable)
        assert BUDGET <= now() < BUDGET + 0.2
        first.cancel()


@in_virtual_time
async def test_whoever_was_answered_behind_the_other_half_of_a_batch_is_not_decided_later() -> None:
    async with scripted_kernel(PartingStore("down")) as b:
        await b.outcomes(Raise(name="a"), Raise(name="b"))
        b.store.up = True
        await asyncio.sleep(10)
        assert await b.counts("a", "b") == [None, None]
        assert (await b.kernel.run(Raise(name="b"))).count == 1


@in_virtual_time
async def test_a_long_outage_does_not_slow_down_the_recovery_from_the_next_one() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        await b.outcomes(Raise(name="a"))
        b.store.up = True
        await b.kernel.run(Raise(name="a"))
        before = now()
        b.store.fail_next(StoreDown("the connection was cut"))
        await b.kernel.run(Raise(name="a"))
        assert now() - before < 0.1


@in_virtual_time
async def test_a_store_that_does_not_even_say_whether_it_is_there_is_asked_again_soon() -> None:
    async with scripted_kernel() as b:
        b.store.fail_next(StoreDown("the connection was cut"))
        waiting = asyncio.create_task(b.kernel.run(Raise(name="a"), acquire_seconds=30))
        await asyncio.sleep(0.005)
        b.store.hang()
        await asyncio.sleep(3)
        b.store._hangs = False
        assert (await waiting).count == 1
        assert now() < 5


@in_virtual_time
async def test_nobody_is_told_to_wait_longer_than_half_a_minute_however_long_an_outage_lasts() -> None:
    async with scripted_kernel() as b:
        b.store.up = False
        await b.outcomes(Raise(name="a"))
        await asyncio.sleep(600)
        (refused,) = await b.outcomes(Raise(name="a"))
        assert refused.retry_after_seconds == 30
