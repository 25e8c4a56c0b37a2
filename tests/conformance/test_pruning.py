"""What a store forgets: old batch ids and expired answers, a bounded number at a time, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib

from interlock.kernel.storage import LockTimeout
from tests.harness.store_places import Place, Server, serving
from tests.kernel.counter_room import Raise, once

BATCHES = "SELECT id FROM batches"
ANSWERS = "SELECT id FROM answers"


async def fill(server: Server, batches: int) -> None:
    for _ in range(batches):
        await server.kernel.run(Raise(name="a"))


async def test_batch_ids_are_forgotten_after_an_hour_but_never_the_newest(place: Place) -> None:
    async with serving(place.store()) as server:
        await fill(server, 3)
        newest = (await place.rows(BATCHES))[-1]
        await place.age(2)
        assert await server.store.prune() == 2
        assert await place.rows(BATCHES) == [newest]
        assert await server.store.prune() == 0


async def test_a_recent_batch_id_is_kept(place: Place) -> None:
    async with serving(place.store()) as server:
        await fill(server, 3)
        await place.age(0.9)
        assert await server.store.prune() == 0
        assert len(await place.rows(BATCHES)) == 3


async def test_a_pass_is_bounded_and_the_next_one_goes_on(place: Place) -> None:
    async with serving(place.store()) as server:
        await fill(server, 6)
        await place.age(2)
        gone = [await server.store.prune(rows_max=2) for _ in range(4)]
        assert gone == [2, 2, 1, 0]


async def test_expired_answers_go_and_the_others_stay(place: Place) -> None:
    async with serving(place.store()) as server:
        for key, hours in (("short", 0.1), ("brief", 0.2), ("long", 24)):
            await server.kernel.run(once(key, hours=hours))
        await place.age(0.5)
        assert await server.store.prune(rows_max=1) == 1
        assert await server.store.prune() == 1
        assert await place.rows(ANSWERS) == [("long",)]
        assert (await server.kernel.run(once("long", hours=24))).replayed
        assert not (await server.kernel.run(once("short", hours=1))).replayed


async def test_an_empty_store_has_nothing_to_forget(place: Place) -> None:
    async with serving(place.store()) as server:
        assert await server.store.prune() == 0


async def test_pruning_and_deciding_do_not_get_in_each_others_way(place: Place) -> None:
    async with serving(place.store()) as server:
        done = False

        async def prune() -> None:
            while not done:
                with contextlib.suppress(LockTimeout):
                    await server.store.prune(rows_max=3)
                await asyncio.sleep(0)

        pruning = asyncio.create_task(prune())
        for _ in range(40):
            await server.kernel.run(Raise(name="b"))
        done = True
        await pruning
        assert await server.counts("b") == [40]
