"""Wake-ups come after the commit, and for what was rolled back never."""

from __future__ import annotations

import asyncio

from interlock.kernel.storage import WriteConflict
from tests.kernel.counter_room import Raise, counter_topic
from tests.kernel.scripted_store import scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


@in_virtual_time
async def test_a_waiter_is_woken_once_the_change_can_be_read() -> None:
    async with scripted_kernel() as b:
        with b.kernel.wakes.subscribe(counter_topic("a")) as heard:
            change = asyncio.create_task(b.kernel.run(Raise(name="a")))
            assert await heard.wait(1)
            assert await b.counts("a") == [1]
            await change


@in_virtual_time
async def test_a_refused_command_wakes_nobody() -> None:
    async with scripted_kernel() as b:
        with b.kernel.wakes.subscribe(counter_topic("a")) as heard:
            await b.outcomes(Raise(name="a", limit=0), Raise(name="b"))
            assert not await heard.wait(1)


@in_virtual_time
async def test_a_batch_that_is_rolled_back_wakes_nobody() -> None:
    async with scripted_kernel() as b:
        b.store.refuse_when(lambda transaction: WriteConflict("another server was first"))
        with b.kernel.wakes.subscribe(counter_topic("a")) as heard:
            change = asyncio.create_task(b.kernel.run(Raise(name="a"), acquire_seconds=0.5))
            assert not await heard.wait(1)
            await asyncio.gather(change, return_exceptions=True)


@in_virtual_time
async def test_a_waiter_hears_its_own_topics_only() -> None:
    async with scripted_kernel() as b:
        with b.kernel.wakes.subscribe(counter_topic("b"), counter_topic("c")) as heard:
            await b.kernel.run(Raise(name="a"))
            assert not await heard.wait(1)
            await b.kernel.run(Raise(name="c"))
            assert await heard.wait(1)


@in_virtual_time
async def test_a_wake_up_between_two_waits_is_not_lost() -> None:
    async with scripted_kernel() as b:
        with b.kernel.wakes.subscribe(counter_topic("a")) as heard:
            await b.kernel.run(Raise(name="a"))
            await asyncio.sleep(5)
            assert await heard.wait(0)


@in_virtual_time
async def test_when_hints_may_be_lost_everybody_is_woken() -> None:
    async with scripted_kernel() as b:
        with b.kernel.wakes.subscribe("some topic") as heard:
            b.kernel.wakes.publish_all()
            assert await heard.wait(0)
