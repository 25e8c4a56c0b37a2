"""Shutting down finishes what was accepted, and only that."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy, StoreUnavailable
from tests.kernel.counter_room import COUNTERS, TENANT, Raise
from tests.kernel.scripted_store import ScriptedKernel, ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


@pytest.mark.parametrize("lanes", [1, 2])
@in_virtual_time
async def test_closing_finishes_what_was_accepted(lanes: int) -> None:
    async with scripted_kernel(ScriptedStore(lanes=lanes), KernelLimits(batch_max=2)) as b:
        accepted = [asyncio.create_task(b.kernel.run(Raise(name=f"c{n}"))) for n in range(9)]
        await asyncio.sleep(0)
        await b.kernel.close()
        assert [task.result().count for task in accepted] == [1] * 9


@pytest.mark.parametrize("lanes", [1, 2])
@in_virtual_time
async def test_closing_waits_for_commands_that_were_sent_back(lanes: int) -> None:
    async with scripted_kernel(ScriptedStore(lanes=lanes)) as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(b.kernel.close())
        await asyncio.sleep(0.1)
        assert not closing.done()
        b.store.held = set()
        await closing
        assert waiting.result().count == 1


@in_virtual_time
async def test_closing_ends_even_if_what_it_waits_for_never_comes() -> None:
    async with scripted_kernel() as b:
        b.store.held = {COUNTERS.key(TENANT, "held")}
        waiting = asyncio.create_task(b.kernel.run(Raise(name="held")))
        await asyncio.sleep(0.1)
        await b.kernel.close()
        assert isinstance(waiting.exception(), LockBusy)


@in_virtual_time
async def test_closing_ends_even_if_the_store_is_down() -> None:
    async with scripted_kernel(ScriptedStore(lanes=2)) as b:
        b.store.up = False
        waiting = [asyncio.create_task(b.kernel.run(Raise(name="a"))) for _ in range(3)]
        await asyncio.sleep(0.1)
        await b.kernel.close()
        assert all(isinstance(task.exception(), StoreUnavailable) for task in waiting)


@in_virtual_time
async def test_a_closed_kernel_takes_nothing_in() -> None:
    async with scripted_kernel() as b:
        await b.kernel.close()
        with pytest.raises(StoreUnavailable, match="shutting down"):
            await b.kernel.run(Raise(name="a"))


@in_virtual_time
async def test_closing_twice_or_before_the_start_is_harmless() -> None:
    unopened = ScriptedKernel(ScriptedStore())
    queued = asyncio.create_task(unopened.kernel.run(Raise(name="a")))
    await asyncio.sleep(0)
    await unopened.kernel.close()
    await unopened.kernel.close()
    with pytest.raises(StoreUnavailable):
        await queued
