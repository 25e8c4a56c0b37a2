"""Commands of admins about webhooks: add, rotate the secret, remove, send a dead letter again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Pick, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import note
from interlock.rooms.events.model import (
    DELIVERIES,
    RELAYS,
    RELAYS_TOPIC,
    WEBHOOKS,
    WEBHOOKS_MAX,
    Delivery,
    DeliveryState,
    NotDead,
    Relay,
    TooManyWebhooks,
    Webhook,
    delivery_id,
    relay_topic,
)
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, record_people_only, require, require_administrator

OVERLAP = timedelta(hours=24)


class TenantWebhooks(Pick[Webhook], frozen=True, kw_only=True):
    """A tenant's webhooks, to count them. Two adds at one moment may go one over: no harm."""

    kind = WEBHOOKS
    query = "events.tenant_webhooks"

    tenant: str

    def params(self, now: datetime) -> Mapping[str, str]:
        return {"tenant": self.tenant}

    def matches(self, record: Webhook, now: datetime) -> bool:
        return record.tenant == self.tenant

    def sort_key(self, record: Webhook) -> Any:
        return record.id


class AddWebhook(Command[Webhook], frozen=True, kw_only=True):
    """Send a tenant's events to an address, from `start_after` on."""

    webhook_id: str
    kind: str = "webhook"
    url: str
    types: tuple[str, ...]
    description: str
    secret: str
    start_after: int
    by: Caller

    def reads(self) -> Reads:
        own = (
            WEBHOOKS.key(self.by.tenant, self.webhook_id),
            RELAYS.key(self.by.tenant, self.webhook_id),
        )
        picks = (TenantWebhooks(tenant=self.by.tenant, limit=WEBHOOKS_MAX, own=False),)
        return Reads(own=own, picks=picks) | caller_reads(self.by)

    def decide(self, world: World) -> Webhook:
        author = require_administrator(world, self.by)
        tenant = author.tenant
        others = world.pick(TenantWebhooks(tenant=tenant, limit=WEBHOOKS_MAX, own=False))
        if len(others) >= WEBHOOKS_MAX:
            raise TooManyWebhooks(WEBHOOKS_MAX)
        relay = Relay(tenant=tenant, id=self.webhook_id, position=self.start_after, moved_at=world.now)
        world.put(RELAYS, relay)
        webhook = Webhook(
            tenant=tenant,
            id=self.webhook_id,
            kind=self.kind,
            url=self.url,
            types=self.types,
            description=self.description,
            secret=self.secret,
            created_at=world.now,
            created_by=author.id,
        )
        _record(world, self.by, "webhook_add", webhook)
        return world.put(WEBHOOKS, webhook)

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "webhook_add", self.webhook_id, refusal)


class RotateSecret(Command[Webhook], frozen=True, kw_only=True):
    """Sign with a new secret, and with the old one too for a day."""

    webhook_id: str
    secret: str
    by: Caller

    def reads(self) -> Reads:
        return Reads(own=(WEBHOOKS.key(self.by.tenant, self.webhook_id),)) | caller_reads(self.by)

    def decide(self, world: World) -> Webhook:
        require_administrator(world, self.by)
        webhook = _find(world, self.by.tenant, self.webhook_id)
        rotated = msgspec.structs.replace(
            webhook,
            secret=self.secret,
            old_secret=webhook.secret,
            old_secret_until=world.now + OVERLAP,
        )
        _record(world, self.by, "webhook_rotate", rotated)
        return world.put(WEBHOOKS, rotated)

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "webhook_rotate", self.webhook_id, refusal)


class RemoveWebhook(Command[Webhook], frozen=True, kw_only=True):
    """Send no more. Deliveries that still wait are dropped."""

    webhook_id: str
    by: Caller

    def reads(self) -> Reads:
        own = (
            WEBHOOKS.key(self.by.tenant, self.webhook_id),
            RELAYS.key(self.by.tenant, self.webhook_id),
        )
        return Reads(own=own) | caller_reads(self.by)

    def decide(self, world: World) -> Webhook:
        require_administrator(world, self.by)
        webhook = _find(world, self.by.tenant, self.webhook_id)
        relay = world.get(RELAYS, webhook.tenant, webhook.id)
        if relay is not None:
            world.delete(RELAYS, relay)
        world.delete(WEBHOOKS, webhook)
        _record(world, self.by, "webhook_remove", webhook)
        return webhook

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "webhook_remove", self.webhook_id, refusal)


class Redeliver(Command[Delivery], frozen=True, kw_only=True):
    """Give a dead letter all its attempts again, at once."""

    webhook_id: str
    event_id: str
    by: Caller

    def reads(self) -> Reads:
        letter = DELIVERIES.key(self.by.tenant, delivery_id(self.webhook_id, self.event_id))
        webhook = WEBHOOKS.key(self.by.tenant, self.webhook_id)
        return Reads(own=(letter,), see=(webhook,)) | caller_reads(self.by)

    def decide(self, world: World) -> Delivery:
        require(world, self.by, Role.ADMIN, Role.OPERATE)
        _find(world, self.by.tenant, self.webhook_id)
        letter = world.get(DELIVERIES, self.by.tenant, delivery_id(self.webhook_id, self.event_id))
        if letter is None:
            raise NotFound("dead letter", self.event_id)
        if letter.state is not DeliveryState.DEAD:
            raise NotDead(self.event_id)
        again = msgspec.structs.replace(
            letter, state=DeliveryState.WAITING, attempts=0, since=world.now, next_attempt_at=world.now
        )
        note(world, self.by, "webhook_redeliver", self.webhook_id, details={"event_id": self.event_id})
        world.wake(relay_topic(self.by.tenant, self.webhook_id))
        return world.put(DELIVERIES, again)


def _find(world: World, tenant: str, webhook_id: str) -> Webhook:
    webhook = world.get(WEBHOOKS, tenant, webhook_id)
    if webhook is None:
        raise NotFound("webhook", webhook_id)
    return webhook


def _record(world: World, by: Caller, action: str, webhook: Webhook) -> None:
    """Audit a change, never a secret, and wake the relays."""
    note(world, by, action, webhook.id, details={"url": webhook.url, "types": list(webhook.types)})
    world.wake(RELAYS_TOPIC)
    world.wake(relay_topic(webhook.tenant, webhook.id))
