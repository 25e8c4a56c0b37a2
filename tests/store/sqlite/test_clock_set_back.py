"""A machine whose clock was ahead, and was set right: time in its store neither goes back nor stands still."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from interlock.kernel.clock import utc_now
from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from tests.harness.store_places import Server, SqlitePlace, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, once


class WhatTime(Command[datetime], frozen=True, kw_only=True):
    """Leaves a trace, so that the store remembers the moment."""

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, "a"),))

    def decide(self, world: World) -> datetime:
        counter = world.get(COUNTERS, TENANT, "a") or Counter(tenant=TENANT, id="a")
        world.put(COUNTERS, counter)
        return world.now


async def times(server: Server, count: int) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(count):
        found.append(await server.kernel.run(WhatTime()))
        await asyncio.sleep(0.01)
    return found


async def test_time_goes_on_after_the_clock_was_a_year_ahead(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store()) as server:
        sqlite_place.clock.ahead = timedelta(days=365)
        ahead = await times(server, 2)
        sqlite_place.clock.ahead = timedelta()
        after = await times(server, 4)
    async with serving(sqlite_place.store()) as restarted:
        after += (await times(restarted, 4))[1:]  # the first knows only of the last batch

    assert ahead[-1] < after[0]
    assert after == sorted(set(after))
    assert after[-1] - ahead[-1] < timedelta(days=1)


async def test_a_clock_that_was_set_back_a_little_is_caught_up_with(sqlite_place: SqlitePlace) -> None:
    async with serving(sqlite_place.store()) as server:
        sqlite_place.clock.ahead = timedelta(seconds=0.2)
        ahead = await times(server, 1)
        sqlite_place.clock.ahead = timedelta()
        behind = await times(server, 1)
        await asyncio.sleep(1.0)
        (caught_up,) = await times(server, 1)

    assert ahead[0] < behind[0] < caught_up <= utc_now()


async def test_a_server_with_a_slow_clock_never_decides_before_the_others(sqlite_place: SqlitePlace) -> None:
    fast = sqlite_place.store()
    await sqlite_place.age(1)
    async with serving(fast) as ahead:
        await ahead.kernel.run(once("key", hours=24))
        await sqlite_place.age(-1)
        async with serving(sqlite_place.store()) as behind:
            await behind.kernel.run(once("other", hours=24))
    rows = await sqlite_place.rows("SELECT expires_at FROM answers ORDER BY id")
    assert rows[1][0] >= rows[0][0]
