"""A relay that this server holds: kept by renewing, given up when another took it or time ran out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from datetime import timedelta

from interlock.kernel.command import Command
from interlock.kernel.hold import HoldState, keep
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault
from interlock.rooms.events.model import BrokerMark, Delivery, Relay
from interlock.rooms.events.refusals import RelayGone, RelayLost
from interlock.rooms.events.relay_leases import (
    Fenced,
    ReleaseRelay,
    SettleDeliveries,
    TakeRelay,
    Trouble,
)


class HeldRelay:
    """What a server may do for a destination while it holds its relay. `relay` is its latest state."""

    def __init__(self, kernel: Kernel, relay: Relay, lease: timedelta, taken_at: float) -> None:
        self.relay = relay
        self.lost = asyncio.Event()
        self._kernel = kernel
        self._lease = lease
        self.lease_seconds = lease.total_seconds()
        self.hold = HoldState(self.lease_seconds, taken_at, is_final=_is_final, on_lost=self.lost.set)

    def seconds_left(self) -> float:
        """How long nobody else can hold it for sure."""
        return self.hold.seconds_left

    async def settle(
        self,
        position: int,
        *,
        mark: BrokerMark | None = None,
        taken: tuple[str, ...] = (),
        kept: tuple[Delivery, ...] = (),
        trouble: Trouble | None = None,
    ) -> None:
        """Keep what a round came to."""
        relay = self.relay
        await self._run(
            SettleDeliveries(
                tenant=relay.tenant,
                relay_id=relay.id,
                fence=relay.fence,
                lease=self._lease,
                position=position,
                mark=mark,
                taken=taken,
                kept=kept,
                trouble=trouble,
            )
        )

    async def renew(self) -> None:
        """Keep it for another lease."""
        relay = self.relay
        await self._run(Fenced(tenant=relay.tenant, relay_id=relay.id, fence=relay.fence, lease=self._lease))

    async def release(self) -> None:
        """Let another server take over at once."""
        relay = self.relay
        await self._run(
            ReleaseRelay(tenant=relay.tenant, relay_id=relay.id, fence=relay.fence, lease=self._lease)
        )

    async def _run(self, command: Command[Relay]) -> None:
        with self.hold.renewal():
            relay = await self._kernel.run(command)
        # A renewal and a change may be under way at once, and the answers may cross.
        if relay.version > self.relay.version:
            self.relay = relay


def _is_final(why: Exception) -> bool:
    return isinstance(why, RelayLost | RelayGone)


@contextlib.asynccontextmanager
async def holding(
    kernel: Kernel, tenant: str, relay_id: str, *, holder: str, lease_seconds: float
) -> AsyncGenerator[HeldRelay]:
    """Take a relay, keep it inside the block, and release it. Raises the refusal if it is not to be had."""
    lease = timedelta(seconds=lease_seconds)
    sent_at = time.monotonic()
    taken = await kernel.run(TakeRelay(tenant=tenant, relay_id=relay_id, holder=holder, lease=lease))
    held = HeldRelay(kernel, taken, lease, sent_at)
    keeping = asyncio.create_task(keep(held.hold, held.renew), name=f"keep-{relay_id}")
    try:
        yield held
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        if not held.lost.is_set():
            with contextlib.suppress(Fault, RelayLost, RelayGone):
                await held.release()
