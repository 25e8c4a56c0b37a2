"""One moment a batch: whatever a store's clock says by the second reads, commands are judged by the first."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.storage import Loaded, Transaction
from interlock.kernel.world import World
from tests.kernel.counter_room import COUNTERS, TENANT
from tests.kernel.scripted_store import ScriptedStore, scripted_kernel
from tests.kernel.virtual_loop import in_virtual_time


class LateStore(ScriptedStore):
    """A store whose clock has moved on by the time of the second load."""

    async def transact(self, transaction: Transaction) -> None:
        def decide(loaded: Loaded | None) -> Any:
            later = loaded and msgspec.structs.replace(loaded, now=loaded.now + timedelta(hours=1))
            return transaction.decide(later)

        await super().transact(msgspec.structs.replace(transaction, decide=decide))


class TellTheTime(Command[datetime], frozen=True, kw_only=True):
    """What time it is when it decides; `seen` collects what time it was when it asked for more."""

    asks_more: bool
    seen: list[datetime] = []

    def reads(self) -> Reads:
        return Reads(see=(COUNTERS.key(TENANT, "a"),))

    def more(self, world: World) -> Reads:
        self.seen.append(world.now)
        return Reads(see=(COUNTERS.key(TENANT, "b"),)) if self.asks_more else Reads()

    def decide(self, world: World) -> datetime:
        return world.now


@in_virtual_time
async def test_a_command_with_second_reads_decides_at_the_moment_of_the_first() -> None:
    asking = TellTheTime(asks_more=True, seen=[])
    async with scripted_kernel(LateStore()) as b:
        assert await b.kernel.run(asking) == asking.seen[0]


@in_virtual_time
async def test_neighbours_in_one_batch_decide_at_one_moment_whoever_asked_for_more() -> None:
    async with scripted_kernel(LateStore()) as b:
        moments = await b.outcomes(
            TellTheTime(asks_more=False, seen=[]),
            TellTheTime(asks_more=True, seen=[]),
            TellTheTime(asks_more=False, seen=[]),
        )
        assert b.watched.sizes == [3]
        assert len(set(moments)) == 1
