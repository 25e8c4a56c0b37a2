"""Events, how rooms write them, the webhooks and brokers that receive them, and their refusals."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from interlock.kernel.record import Key, Kind, Reads, Record, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import without_fences

# Every type of event that can happen. A filter that fits none of them is refused.
EventType: TypeAlias = Literal[
    "approval.approved",
    "approval.asked",
    "approval.commented",
    "approval.escalated",
    "approval.expired",
    "approval.opened",
    "approval.rejected",
    "approval.requested",
    "approval.vote_recorded",
    "approval.withdrawn",
    "conflict.opened",
    "conflict.resolved",
    "effect.ambiguous",
    "effect.begun",
    "effect.committed",
    "effect.failed",
    "effect.resolved",
    "grant.claimed",
    "grant.expired",
    "grant.issued",
    "grant.revoked",
    "job.cancelled",
    "job.claimed",
    "job.denied",
    "job.expired",
    "job.failed",
    "job.lease_lost",
    "job.released",
    "job.retried",
    "job.retrying",
    "job.returned",
    "job.succeeded",
    "lease.acquired",
    "lease.checkpoint",
    "lease.conflict_detected",
    "lease.handed_off",
    "lease.released",
    "lease.settled",
    "lease.stale",
    "policy.activated",
    "run.cancelled",
    "run.failed",
    "run.lost",
    "run.started",
    "run.succeeded",
    "target.touched",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class Event(Record, frozen=True, kw_only=True):
    """Something that happened, for the outside. `type` is dotted: `approval.approved`."""

    at: datetime
    type: str
    subject: str
    data: dict[str, Any] = {}


class PlacedEvent(msgspec.Struct, frozen=True):
    """An event and its place among all events."""

    position: int
    event: Event


EVENTS = Kind(
    "event",
    Event,
    table="events",
    columns=("at", "type", "subject"),
    values=lambda event: (micros(event.at), event.type, event.subject),
)


# The tenant of what belongs to the whole deployment. No tenant can be called so.
DEPLOYMENT = "*"
BROKER = "nats"
WEBHOOKS_MAX = 20

_NEVER_HELD = 0


class Webhook(Record, frozen=True, kw_only=True):
    """An address that a tenant's events go to. No `types` means every type; `kind` names the channel."""

    kind: str = "webhook"
    url: str
    types: tuple[str, ...] = ()
    description: str = ""
    secret: str
    # After a rotation both secrets sign, until the receiver has had time to change.
    old_secret: str | None = None
    old_secret_until: datetime | None = None
    created_at: datetime
    created_by: str

    def secrets_at(self, now: datetime) -> tuple[str, ...]:
        """The secrets that sign at a moment, the current one first."""
        if self.old_secret is None or self.old_secret_until is None or now >= self.old_secret_until:
            return (self.secret,)
        return (self.secret, self.old_secret)


class BrokerMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the broker's stream looked like when it last took something: how a lost one is recognised."""

    created: str
    sequence: int = 0


class Relay(Record, frozen=True, kw_only=True):
    """Progress towards one target. Everything up to `position` was delivered or is a delivery of its own."""

    position: int = 0
    fence: int = 0
    holder: str = ""
    held_until: datetime | None = None
    failures: int = 0  # in a row, whatever the event
    failing_since: datetime | None = None
    error: str = ""
    retry_at: datetime | None = None
    moved_at: datetime
    mark: BrokerMark | None = None

    def is_free_at(self, now: datetime) -> bool:
        return self.held_until is None or now >= self.held_until


class DeliveryState(StrEnum):
    WAITING = "waiting"
    DEAD = "dead"


class Delivery(Record, frozen=True, kw_only=True):
    """An event that a webhook has not taken yet. `body` holds the bytes to post, kept with this record."""

    webhook: str
    event_id: str
    type: str
    subject: str
    position: int
    body: str
    state: DeliveryState = DeliveryState.WAITING
    attempts: int = 0
    error: str = ""
    since: datetime
    next_attempt_at: datetime


def delivery_id(webhook: str, event_id: str) -> str:
    """The id of the one delivery of an event to a webhook, however often it is tried."""
    return f"{webhook}.{event_id}"


def relay_topic(tenant: str, relay: str) -> str:
    """What a relay waits on besides new events: its target was changed."""
    return f"relay:{tenant}:{relay}"


RELAYS_TOPIC = "relays"

WEBHOOKS = Kind("webhook", Webhook, table="webhooks")
RELAYS = Kind(
    "relay",
    Relay,
    table="relays",
    columns=("position", "free_at"),
    values=lambda relay: (relay.position, micros(relay.held_until) if relay.held_until else _NEVER_HELD),
)
DELIVERIES = Kind(
    "delivery",
    Delivery,
    table="deliveries",
    columns=("webhook", "state", "position", "at"),
    values=lambda delivery: (delivery.webhook, delivery.state, delivery.position, micros(delivery.since)),
)


# Woken in every server by a commit with an event in it; the feed, which gives events their positions, waits on it.
EVENTS_TOPIC = "events"
# Woken in a server once it has seen events with positions, of whichever tenant.
POSITIONS_TOPIC = "positions"


def events_topic(tenant: str) -> str:
    """What a reader of a tenant's events waits on; woken once they can be read."""
    return f"positions:{tenant}"


def announce(world: World, tenant: str, event_type: EventType, subject: str, data: dict[str, Any]) -> None:
    """Write an event that leaves if, and only if, this batch commits. Fences are for their holders, and stay."""
    event = Event(
        tenant=tenant,
        id=world.new_id("evt"),
        version=1,
        at=world.now,
        type=event_type,
        subject=subject,
        data=without_fences(data),
    )
    world.add(EVENTS, event)
    world.wake(EVENTS_TOPIC)


class Forget(Command[int], frozen=True, kw_only=True):
    """Delete these events or deliveries, which no relay needs any more; returns how many there still were."""

    keys: tuple[Key, ...]

    def reads(self) -> Reads:
        return Reads(own=self.keys)

    def decide(self, world: World) -> int:
        found = [(key, record) for key in self.keys if (record := world.get(*key)) is not None]
        for key, record in found:
            world.delete(key.kind, record)
        return len(found)


class RelayHeld(Refusal):
    """Another server delivers to this target."""

    def __init__(self, relay: str, holder: str, until: datetime | None) -> None:
        super().__init__(f"{relay} is delivered by {holder} until {until}; try again after that")


class RelayLost(Refusal):
    """The fence is not the current one: another server has taken over. Stop delivering."""

    def __init__(self, relay: str) -> None:
        super().__init__(f"another server delivers to {relay} now; stop, and take it again when it is free")


class RelayGone(Refusal):
    """The target was removed."""

    def __init__(self, relay: str) -> None:
        super().__init__(f"{relay} was removed; there is nothing to deliver to")


class TooManyWebhooks(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__(f"a tenant has at most {most} webhooks; remove one, or fan out behind one of them")


class NotDead(Refusal):
    """Only a dead letter can be sent again by hand."""

    def __init__(self, event_id: str) -> None:
        super().__init__(f"{event_id} is still being tried; it needs no help until it is a dead letter")
