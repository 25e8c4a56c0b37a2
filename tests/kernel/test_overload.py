"""A full queue refuses at once, before any work; a queue that is merely slow answers in time too."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import Overloaded
from tests.kernel.counter_room import Raise
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


@in_virtual_time
async def test_a_full_queue_refuses_the_next_command_at_once() -> None:
    async with scripted_kernel(limits=KernelLimits(queue_max=10)) as b:
        waiting = [asyncio.create_task(b.kernel.run(Raise(name="a"))) for _ in range(10)]
        await asyncio.sleep(0)
        before = asyncio.get_running_loop().time()
        with pytest.raises(Overloaded) as raised:
            await b.kernel.run(Raise(name="a"))
        assert asyncio.get_running_loop().time() == before
        assert raised.value.retry_after_seconds == pytest.approx(0.1)
        assert b.watched.overloaded == 1
        await asyncio.gather(*waiting)


@in_virtual_time
async def test_the_queue_is_bounded_by_bytes_too() -> None:
    async with scripted_kernel(limits=KernelLimits(queue_bytes_max=1000)) as b:
        large = asyncio.create_task(b.kernel.run(Raise(name="a"), weight=900))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await b.kernel.run(Raise(name="a"), weight=101)
        small = asyncio.create_task(b.kernel.run(Raise(name="a"), weight=100))
        await asyncio.gather(large, small)


@in_virtual_time
async def test_commands_that_came_back_to_the_queue_take_up_room_in_it() -> None:
    async with scripted_kernel(limits=KernelLimits(queue_bytes_max=1000)) as b:
        b.store.up = False
        waiting = asyncio.create_task(b.kernel.run(Raise(name="a"), weight=900))
        await asyncio.sleep(1)
        with pytest.raises(Overloaded):
            await b.kernel.run(Raise(name="a"), weight=101)
        b.store.up = True
        await waiting


@in_virtual_time
async def test_room_is_given_back_when_commands_leave_the_queue() -> None:
    async with scripted_kernel(limits=KernelLimits(queue_max=2, queue_bytes_max=100)) as b:
        for _ in range(5):
            await asyncio.gather(
                b.kernel.run(Raise(name="a"), weight=50), b.kernel.run(Raise(name="a"), weight=50)
            )
        assert b.kernel.queue_depth == 0


@in_virtual_time
async def test_room_is_given_back_when_callers_go_away_or_run_out_of_time() -> None:
    async with scripted_kernel(limits=KernelLimits(queue_max=3, queue_bytes_max=90)) as b:
        b.store.up = False
        await asyncio.gather(
            *(b.kernel.run(Raise(name="a"), weight=30) for _ in range(3)), return_exceptions=True
        )
        leaving = [asyncio.create_task(b.kernel.run(Raise(name="a"), weight=30)) for _ in range(3)]
        await asyncio.sleep(0.1)
        for task in leaving:
            task.cancel()
        await asyncio.sleep(0.1)
        b.store.up = True
        await asyncio.gather(*(b.kernel.run(Raise(name="a"), weight=30) for _ in range(3)))


@in_virtual_time
async def test_what_a_slow_queue_does_not_reach_in_time_is_overloaded_not_unavailable() -> None:
    store = ScriptedStore(batch_seconds=0.5)
    async with scripted_kernel(store, KernelLimits(batch_max=1)) as b:
        outcomes = await b.outcomes(*(Raise(name="a") for _ in range(12)))
        kinds = {type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)}
        assert kinds == {Overloaded}
        assert sum(isinstance(outcome, Overloaded) for outcome in outcomes) == 8
