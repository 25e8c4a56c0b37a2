"""The loop that delivers events to one destination, through any channel, while this server holds its relay.

It reads the outbox from the relay's position, has the channel deliver, waits longer after each failure, keeps dead
letters, and tells metrics and logs. How to deliver, and which failures are final, is all that a channel says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.hold import HoldState, keep
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import Store
from interlock.kernel.wakes import Wakes
from interlock.kernel.world import Command
from interlock.rooms.events import deliveries, queries
from interlock.rooms.events.cloud_events import wants
from interlock.rooms.events.deliveries import (
    Fenced,
    RelayTrouble,
    ReleaseRelay,
    RoundTally,
    SettleDeliveries,
    TakeRelay,
)
from interlock.rooms.events.model import (
    DEPLOYMENT,
    POSITIONS_TOPIC,
    BrokerMark,
    Delivery,
    DeliveryState,
    PlacedEvent,
    Relay,
    RelayGone,
    RelayLost,
    events_topic,
    relay_topic,
)
from interlock.service.channel import (
    Channel,
    Delivered,
    Destination,
    Destinations,
    GiveUp,
    Outcome,
    Route,
    Standing,
    TryAgain,
    asked,
    attempt,
)
from interlock.service.measures import RelayMeasures
from interlock.service.settings import Settings

log = logging.getLogger(__name__)

SCANNED_MAX = 500

_TURN_SECONDS = 10.0
_UNSAVED_MAX = 1000
_CLOSE_SECONDS = 5.0

# Which of the wanted events to take on now: some of the first, in their order.
Choose = Callable[[list[PlacedEvent]], list[PlacedEvent]]


class RelayParts(msgspec.Struct, frozen=True, kw_only=True):
    """What every relay of a server shares."""

    store: Store
    wakes: Wakes
    destinations: Destinations
    settings: Settings
    measures: RelayMeasures
    gives_way: Callable[[], bool]
    now: Callable[[], datetime]


class RelayLoop:
    """Delivers to the destination of one relay, for as long as it is held."""

    def __init__(self, parts: RelayParts, held: HeldRelay) -> None:
        self._parts = parts
        self._held = held
        self._position = held.relay.position

    async def run(self) -> None:
        """Deliver until the destination is removed, the relay is lost, or it is another's turn."""
        tenant, relay_id = self._held.relay.tenant, self._held.relay.id
        turn_ends = time.monotonic() + _TURN_SECONDS
        try:
            while (route := await self._parts.destinations.find(tenant, relay_id)) is not None:
                async with self._opened(route) as channel:
                    if not await self._drive(channel, route.destination, turn_ends):
                        return
        finally:
            self._parts.measures.gone(relay_id)

    async def _drive(self, channel: Channel, destination: Destination, turn_ends: float) -> bool:
        """Round after round; False when it is another's turn, True when the destination has changed."""
        tenant, relay_id = destination.tenant, destination.id
        news = POSITIONS_TOPIC if tenant == DEPLOYMENT else events_topic(tenant)
        with self._parts.wakes.subscribe(news, relay_topic(tenant, relay_id)) as heard:
            while True:
                found = await self._parts.destinations.find(tenant, relay_id)
                if found is None or found.destination.version != destination.version:
                    return True
                one_round = self._copy if channel.limits.in_order else self._send
                pause = await one_round(channel, destination)
                if (pause > 0 or time.monotonic() >= turn_ends) and self._is_anothers_turn():
                    return False
                if pause > 0:
                    await heard.wait(pause)

    def _is_anothers_turn(self) -> bool:
        # There is a handful of those that the operator configured, and they are always taken first.
        return self._held.relay.tenant != DEPLOYMENT and self._parts.gives_way()

    @contextlib.asynccontextmanager
    async def _opened(self, route: Route) -> AsyncGenerator[Channel]:
        channel = route.channel(route.destination, self._parts.settings)
        if route.destination.tenant == DEPLOYMENT and not channel.limits.in_order:
            raise TypeError(f"{channel.kind} is not in order, so it cannot be configured for all tenants")
        try:
            yield channel
        finally:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await channel.close()
            except Exception as error:  # noqa: BLE001 - it is being thrown away
                log.debug("closing the channel of %s: %s", route.destination.id, error)

    # --- each event for itself ---

    async def _send(self, channel: Channel, destination: Destination) -> float:
        """Try due deliveries and new events; returns how long to wait before the next round."""
        tenant, relay_id = destination.tenant, destination.id
        waiting = await queries.deliveries(
            self._parts.store, tenant, relay_id, DeliveryState.WAITING, limit=deliveries.WAITING_MAX
        )
        now = self._parts.now()
        scanned: list[PlacedEvent] = []
        fresh: list[PlacedEvent] = []
        if len(waiting) < deliveries.WAITING_MAX:
            scanned, fresh = await self._scan(
                destination,
                deliveries.FRESH_MAX,
                lambda wanted: deliveries.choose_fresh(self._held.relay, waiting, wanted, now),
            )
        self._measure(scanned, now)
        news = [deliveries.as_delivery(placed, relay_id, now) for placed in fresh]
        planned = deliveries.plan_round(waiting, news, now)
        tally = await self._try(channel, planned.lanes)
        tally.kept.extend(planned.parked)
        tried = [delivery for lane in planned.lanes for delivery in lane]
        await self._settle(channel, scanned, tally, waiting, tried)
        is_busy = tried or fresh or len(scanned) == SCANNED_MAX
        return 0.0 if is_busy else self._pause(channel, waiting, now)

    async def _try(self, channel: Channel, lanes: Sequence[Sequence[Delivery]]) -> RoundTally:
        tally = RoundTally()
        slots = asyncio.Semaphore(channel.limits.at_once)

        async def run_lane(lane: Sequence[Delivery]) -> None:
            async with slots:
                await self._try_lane(channel, lane, tally)

        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(run_lane(lane))
        return tally

    async def _try_lane(self, channel: Channel, lane: Sequence[Delivery], tally: RoundTally) -> None:
        for place, delivery in enumerate(lane):
            outcome = await self._deliver(channel, [delivery])
            if not isinstance(outcome, Delivered):
                self._refused(channel, delivery, outcome, tally)
                tally.kept.extend(each for each in lane[place + 1 :] if not each.version)
                return
            tally.taken += 1
            if delivery.version:
                tally.done.append(delivery.id)

    def _refused(
        self, channel: Channel, delivery: Delivery, outcome: TryAgain | GiveUp, tally: RoundTally
    ) -> None:
        """Store an event that was not taken, to be tried again or as a dead letter."""
        backoff = channel.limits.backoff
        asked_seconds = outcome.after_seconds if isinstance(outcome, TryAgain) else 0.0
        rest = backoff.rest(delivery.attempts + 1, random.random(), asked_seconds=asked_seconds)
        attempts_max = 0 if isinstance(outcome, GiveUp) else backoff.attempts_max
        kept = deliveries.refused(delivery, outcome.why, self._parts.now(), rest, attempts_max)
        is_dead = kept.state is DeliveryState.DEAD
        tally.kept.append(kept)
        tally.refused += 1
        tally.dead += is_dead
        tally.error = outcome.why
        self._parts.measures.deliveries.add(channel.kind, "dead" if is_dead else "refused")
        if is_dead:
            told = (delivery.event_id, delivery.webhook, kept.attempts, outcome.why)
            log.warning("event %s is a dead letter of %s, attempt %d: %s", *told)

    async def _settle(
        self,
        channel: Channel,
        scanned: Sequence[PlacedEvent],
        tally: RoundTally,
        waiting: Sequence[Delivery],
        tried: Sequence[Delivery],
    ) -> None:
        now = self._parts.now()
        relay = self._held.relay
        if tally.taken and relay.failures >= deliveries.OUTAGE_ROUNDS:
            tally.kept.extend(deliveries.hastened(waiting, tried, now))
        self._position = scanned[-1].position if scanned else self._position
        if tried or tally.kept or self._position - relay.position > _UNSAVED_MAX:
            trouble = deliveries.trouble_after(tally, relay, now, channel.limits.backoff)
            await self._held.settle(
                self._position, taken=tuple(tally.done), kept=tuple(tally.kept), trouble=trouble
            )

    def _pause(self, channel: Channel, waiting: Sequence[Delivery], now: datetime) -> float:
        due = [deliveries.next_due(waiting), self._held.relay.retry_at]
        waits = [(moment - now).total_seconds() for moment in due if moment is not None and moment > now]
        return min([channel.limits.look_seconds, *waits]) + 0.001

    # --- a copy of everything, in order ---

    async def _copy(self, channel: Channel, destination: Destination) -> float:
        """Deliver the next events, if the destination is where it was left; returns how long to wait then."""
        now, limits = self._parts.now(), channel.limits
        retry_at = self._held.relay.retry_at
        if retry_at is not None and now < retry_at:
            return (retry_at - now).total_seconds() + 0.001
        mark = await self._resumed(channel)
        if isinstance(mark, TryAgain):
            return await self._rest(channel, mark)
        scanned, chosen = await self._scan(
            destination, limits.batch_max, lambda wanted: wanted[: limits.batch_max]
        )
        self._measure(scanned, now)
        if chosen:
            letters = [deliveries.as_delivery(placed, destination.id, now) for placed in chosen]
            outcome = await self._deliver(channel, letters)
            if not isinstance(outcome, Delivered):
                return await self._rest(channel, outcome)
            mark = outcome.mark or mark
        relay = self._held.relay
        self._position = scanned[-1].position if scanned else self._position
        if chosen or relay.failures or self._position - relay.position > _UNSAVED_MAX:
            await self._held.settle(self._position, mark=mark)
        return 0.0 if scanned else limits.look_seconds

    async def _resumed(self, channel: Channel) -> BrokerMark | TryAgain | None:
        """Ask the destination where it is; if it has lost something, go back to there."""
        relay = self._held.relay
        standing = Standing(self._position, relay.mark)
        found = await asked(channel, standing)
        if isinstance(found, TryAgain) or found == standing:
            return found if isinstance(found, TryAgain) else found.mark
        if relay.mark is not None:
            places = (relay.id, found.position, standing.position)
            log.warning("%s has lost events; sending again from position %d of %d", *places)
            self._parts.measures.rewinds.add()
        self._position = found.position
        await self._held.settle(found.position, mark=found.mark)
        return found.mark

    async def _rest(self, channel: Channel, outcome: TryAgain | GiveUp) -> float:
        """Store why the destination takes nothing, and wait a little longer before each new attempt."""
        relay, backoff = self._held.relay, channel.limits.backoff
        asked_seconds = outcome.after_seconds if isinstance(outcome, TryAgain) else 0.0
        seconds = backoff.rest(relay.failures + 1, 0.0, asked_seconds=asked_seconds)
        log.info("%s takes no events: %s; trying again in %.1f s", relay.id, outcome.why, seconds)
        self._parts.measures.deliveries.add(channel.kind, "refused")
        trouble = deliveries.worse(relay, outcome.why, self._parts.now(), seconds)
        await self._held.settle(self._position, trouble=trouble)
        return seconds

    # --- what both have in common ---

    async def _scan(
        self, destination: Destination, page: int, choose: Choose
    ) -> tuple[list[PlacedEvent], list[PlacedEvent]]:
        """Events not looked at yet, and those of them to take on now."""
        limit = SCANNED_MAX if destination.types else page
        store, after = self._parts.store, self._position
        if destination.tenant == DEPLOYMENT:
            scanned = await queries.every_event_after(store, after, limit=limit)
        else:
            scanned = await queries.events_after(store, destination.tenant, after, limit=limit)
        wanted = [placed for placed in scanned if wants(destination.types, placed.event.type)]
        chosen = choose(wanted)
        if len(chosen) < len(wanted):
            left = wanted[len(chosen)].position
            scanned = [placed for placed in scanned if placed.position < left]
        return scanned, chosen

    def _measure(self, scanned: Sequence[PlacedEvent], now: datetime) -> None:
        age = (now - scanned[0].event.at).total_seconds() if scanned else 0.0
        self._parts.measures.at(self._held.relay.id, self._position, age)

    async def _deliver(self, channel: Channel, letters: Sequence[Delivery]) -> Outcome:
        """Deliver, if there is time enough to do it before another server may."""
        needed = min(channel.limits.seconds, self._held.lease_seconds / 2)
        # Wait for a renewal if the rest of the lease would not cover a slow answer.
        while self._held.seconds_left() < needed:  # noqa: ASYNC110 - time runs out by itself
            await asyncio.sleep(0.05)
        outcome = await attempt(channel, letters)
        if isinstance(outcome, Delivered):
            self._parts.measures.deliveries.add(channel.kind, "taken", amount=len(letters))
        return outcome


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
        """For how long certainly no other server can hold it."""
        return self.hold.seconds_left

    async def settle(
        self,
        position: int,
        *,
        mark: BrokerMark | None = None,
        taken: tuple[str, ...] = (),
        kept: tuple[Delivery, ...] = (),
        trouble: RelayTrouble | None = None,
    ) -> None:
        """Store the result of a round."""
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


@contextlib.asynccontextmanager
async def holding(
    kernel: Kernel, tenant: str, relay_id: str, *, holder: str, lease_seconds: float
) -> AsyncGenerator[HeldRelay]:
    """Take a relay, keep it inside the block, and release it. Raises the refusal if it cannot be taken."""
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


def _is_final(why: Exception) -> bool:
    return isinstance(why, RelayLost | RelayGone)
