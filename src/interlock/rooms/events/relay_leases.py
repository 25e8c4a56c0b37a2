"""Relay leases: each target has one relay at a time, held by one server and kept by renewing.

Every change of a relay's progress carries its fence. A server that was paused past its lease has a stale fence, and
its writes are refused; the server that took over sends the same events again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Key, Reads
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import (
    DELIVERIES,
    DEPLOYMENT,
    RELAYS,
    RELAYS_TOPIC,
    BrokerMark,
    Delivery,
    Relay,
    RelayGone,
    RelayHeld,
    RelayLost,
)


class TakeRelay(Command[Relay], frozen=True, kw_only=True):
    """Become the server that delivers to a target, if there is none."""

    tenant: str
    relay_id: str
    holder: str
    lease: timedelta

    def reads(self) -> Reads:
        return Reads(own=(RELAYS.key(self.tenant, self.relay_id),))

    def decide(self, world: World) -> Relay:
        relay = world.get(RELAYS, self.tenant, self.relay_id)
        if relay is None:
            # A tenant's relay is made with its webhook; what the operator configured has no other beginning.
            if self.tenant != DEPLOYMENT:
                raise RelayGone(self.relay_id)
            relay = Relay(tenant=self.tenant, id=self.relay_id, moved_at=world.now)
        if not relay.is_free_at(world.now):
            raise RelayHeld(relay.id, relay.holder, relay.held_until)
        taken = msgspec.structs.replace(
            relay,
            holder=self.holder,
            fence=world.next_fence(relay.fence),
            held_until=world.now + self.lease,
        )
        return world.put(RELAYS, taken)


class Fenced(Command[Relay], frozen=True, kw_only=True):
    """What only the current holder may do; doing it keeps the relay for another lease."""

    tenant: str
    relay_id: str
    fence: int
    lease: timedelta

    def reads(self) -> Reads:
        return Reads(own=(RELAYS.key(self.tenant, self.relay_id),))

    def held(self, world: World) -> Relay:
        """The relay, kept for another lease, or a refusal if it is no longer the holder's."""
        relay = world.get(RELAYS, self.tenant, self.relay_id)
        if relay is None:
            raise RelayGone(self.relay_id)
        if relay.fence != self.fence:
            raise RelayLost(self.relay_id)
        return msgspec.structs.replace(relay, held_until=world.now + self.lease)

    def decide(self, world: World) -> Relay:
        return world.put(RELAYS, self.held(world))


class ReleaseRelay(Fenced, frozen=True, kw_only=True):
    """Let another server take over at once."""

    def decide(self, world: World) -> Relay:
        freed = msgspec.structs.replace(self.held(world), held_until=world.now)
        world.wake(RELAYS_TOPIC)
        return world.put(RELAYS, freed)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a target takes nothing, how often in a row, and when to try again."""

    failures: int
    error: str
    retry_at: datetime


class SettleDeliveries(Fenced, frozen=True, kw_only=True):
    """Store the result of one round: the position, the deliveries that were taken, and those that wait.

    The position moves back only to send again what the destination lost. Without a `mark` the old one stays.
    """

    position: int
    mark: BrokerMark | None = None
    taken: tuple[str, ...] = ()
    kept: tuple[Delivery, ...] = ()
    trouble: Trouble | None = None

    def reads(self) -> Reads:
        ids = (*self.taken, *(delivery.id for delivery in self.kept))
        own: tuple[Key, ...] = tuple(DELIVERIES.key(self.tenant, each) for each in ids)
        return Reads(own=(RELAYS.key(self.tenant, self.relay_id), *own))

    def decide(self, world: World) -> Relay:
        relay = self.held(world)
        for each in self.taken:
            delivery = world.get(DELIVERIES, self.tenant, each)
            if delivery is not None:
                world.delete(DELIVERIES, delivery)
        for delivery in self.kept:
            world.put(DELIVERIES, delivery)
        return world.put(
            RELAYS, moved(relay, self.position, self.trouble, world.now, self.mark or relay.mark)
        )


def moved(
    relay: Relay, position: int, trouble: Trouble | None, now: datetime, mark: BrokerMark | None
) -> Relay:
    """A relay after a round: further on, and well again or still in trouble."""
    return msgspec.structs.replace(
        relay,
        position=position,
        moved_at=now if position != relay.position else relay.moved_at,
        mark=mark,
        failures=trouble.failures if trouble else 0,
        error=trouble.error if trouble else "",
        retry_at=trouble.retry_at if trouble else None,
        failing_since=(relay.failing_since or now) if trouble else None,
    )
