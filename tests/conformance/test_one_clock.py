"""What the second reads look for by time, every store judges by the moment of the first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime

from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from tests.harness.store_places import Place, serving
from tests.kernel.counter_room import COUNTERS, TENANT, DueChores

MOMENTS: list[datetime] = []


class WatchedChores(DueChores, frozen=True, kw_only=True):
    """Notes the moment by which a store judges it, in whichever way the store asks."""

    def params(self, now: datetime) -> Mapping[str, int]:
        MOMENTS.append(now)
        return super().params(now)


class LookLater(Command[datetime], frozen=True, kw_only=True):
    """Asks for due chores in its second reads, after time has passed since the first."""

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, "a"),))

    def more(self, world: World) -> Reads:
        time.sleep(0.01)
        return Reads(picks=(WatchedChores(limit=1, own=False),))

    def decide(self, world: World) -> datetime:
        world.pick(WatchedChores(limit=1, own=False))
        return world.now


async def test_second_reads_are_judged_by_the_moment_of_the_first(shared_place: Place) -> None:
    MOMENTS.clear()
    async with serving(shared_place.store()) as server:
        decided_at = await server.kernel.run(LookLater())
    assert MOMENTS
    assert set(MOMENTS) == {decided_at}
