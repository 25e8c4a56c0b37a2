"""Deliveries to a destination: one server at a time holds its relay, plans a round, and stores the result.

Every change of a relay's progress carries its fence. A server that was paused past its lease has a stale fence, and
its writes are refused; the server that took over sends the same events again.

Events about one subject are sent in order. A lane is the events of one subject, and only its first is attempted;
while that fails, the events behind it wait. Lanes do not wait for each other, so an event that its destination
cannot take delays only its own subject. Nothing is sent here: `service/relay_loop.py` does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Key, Reads
from interlock.kernel.world import Command, World
from interlock.rooms.events.cloud_events import cloud_json
from interlock.rooms.events.model import (
    DELIVERIES,
    DEPLOYMENT,
    RELAYS,
    RELAYS_TOPIC,
    BrokerMark,
    Delivery,
    DeliveryState,
    PlacedEvent,
    Relay,
    RelayGone,
    RelayHeld,
    RelayLost,
    delivery_id,
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


class RelayTrouble(msgspec.Struct, frozen=True, kw_only=True):
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
    trouble: RelayTrouble | None = None

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
    relay: Relay, position: int, trouble: RelayTrouble | None, now: datetime, mark: BrokerMark | None
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


FRESH_MAX = 50
WAITING_MAX = 200
# When this many subjects fail, the target is taken to be down, not one event to be bad; it is then probed with
# one new event at a time, at least this often.
SICK_SUBJECTS = 3
PROBE_SECONDS_MAX = 30.0
# This many failed rounds in a row look like an outage: once it is over, what waits is tried at once.
OUTAGE_ROUNDS = 3


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long an event rests after an attempt, and after how many it is a dead letter."""

    base_seconds: float = 1.0
    most_seconds: float = 3600.0
    attempts_max: int = 20

    def rest(self, attempts: int, jitter: float, *, asked_seconds: float = 0.0) -> float:
        """Seconds after this many attempts, truncated; `jitter` from 0 to 1 takes up to half away.

        A destination may ask for more, up to the longest rest.
        """
        whole = min(self.most_seconds, self.base_seconds * 2.0 ** min(attempts - 1, 60))
        return max(whole * (1.0 - jitter / 2), min(asked_seconds, self.most_seconds))


class Round(msgspec.Struct, frozen=True):
    """What to try now, lane by lane, and what to put behind an event that is not due yet."""

    lanes: list[list[Delivery]]
    parked: list[Delivery]


class RoundTally(msgspec.Struct):
    """What a round came to so far."""

    taken: int = 0
    refused: int = 0
    dead: int = 0
    error: str = ""
    done: list[str] = msgspec.field(default_factory=list[str])
    kept: list[Delivery] = msgspec.field(default_factory=list[Delivery])


def as_delivery(placed: PlacedEvent, webhook: str, now: datetime) -> Delivery:
    """An event on its way to a webhook, not tried yet."""
    event = placed.event
    return Delivery(
        tenant=event.tenant,
        id=delivery_id(webhook, event.id),
        webhook=webhook,
        event_id=event.id,
        type=event.type,
        subject=event.subject,
        position=placed.position,
        body=cloud_json(event, placed.position).decode(),
        since=now,
        next_attempt_at=now,
    )


def choose_fresh(
    relay: Relay, waiting: Sequence[Delivery], wanted: Sequence[PlacedEvent], now: datetime
) -> list[PlacedEvent]:
    """The next events to take on: many if all is well, up to one that will be tried if nothing was taken."""
    room = min(FRESH_MAX, WAITING_MAX - len(waiting))
    chosen = list(wanted[: max(0, room)])
    if not relay.failures:
        return chosen
    sick = {delivery.subject for delivery in waiting if delivery.attempts}
    if len(sick) >= SICK_SUBJECTS and relay.retry_at is not None and now < relay.retry_at:
        return []
    held_back = {delivery.subject for delivery in waiting}
    probe = next((n for n, placed in enumerate(chosen) if placed.event.subject not in held_back), len(chosen))
    return chosen[: probe + 1]


def plan_round(waiting: Sequence[Delivery], fresh: Iterable[Delivery], now: datetime) -> Round:
    """Put new events behind those of the same subject that wait; lanes whose first is due are tried."""
    lanes: dict[str, list[Delivery]] = {}
    for delivery in (*waiting, *fresh):
        lanes.setdefault(delivery.subject, []).append(delivery)
    due = [lane for lane in lanes.values() if lane[0].next_attempt_at <= now]
    resting = (lane for lane in lanes.values() if lane[0].next_attempt_at > now)
    return Round(due, [each for lane in resting for each in lane if not each.version])


def next_due(waiting: Sequence[Delivery]) -> datetime | None:
    """When the first of the waiting lanes is due."""
    first: dict[str, datetime] = {}
    for delivery in waiting:
        first.setdefault(delivery.subject, delivery.next_attempt_at)
    return min(first.values(), default=None)


def refused(
    delivery: Delivery, error: str, now: datetime, rest_seconds: float, attempts_max: int
) -> Delivery:
    """A delivery after one more failed attempt: resting, or dead."""
    attempts = delivery.attempts + 1
    return msgspec.structs.replace(
        delivery,
        attempts=attempts,
        error=error,
        next_attempt_at=now + timedelta(seconds=rest_seconds),
        state=DeliveryState.DEAD if attempts >= attempts_max else DeliveryState.WAITING,
    )


def trouble_after(tally: RoundTally, relay: Relay, now: datetime, backoff: Backoff) -> RelayTrouble | None:
    """How the target does: well after anything was taken, worse after a round in which nothing was."""
    if tally.taken:
        return None
    if not tally.refused:
        return trouble_of(relay)
    return worse(relay, tally.error, now, min(PROBE_SECONDS_MAX, backoff.rest(relay.failures + 1, 0.0)))


def worse(relay: Relay, error: str, now: datetime, rest_seconds: float) -> RelayTrouble:
    """The trouble of a relay after one more failure."""
    return RelayTrouble(
        failures=relay.failures + 1, error=error, retry_at=now + timedelta(seconds=rest_seconds)
    )


def trouble_of(relay: Relay) -> RelayTrouble | None:
    """The trouble a relay is in."""
    if not relay.failures or relay.retry_at is None:
        return None
    return RelayTrouble(failures=relay.failures, error=relay.error, retry_at=relay.retry_at)


def hastened(waiting: Sequence[Delivery], tried: Iterable[Delivery], now: datetime) -> list[Delivery]:
    """The deliveries that rest because of an outage that is over, now due at once."""
    touched = {delivery.subject for delivery in tried}
    firsts: dict[str, Delivery] = {}
    for delivery in waiting:
        firsts.setdefault(delivery.subject, delivery)
    return [
        msgspec.structs.replace(delivery, next_attempt_at=now)
        for subject, delivery in firsts.items()
        if subject not in touched and delivery.next_attempt_at > now
    ]
