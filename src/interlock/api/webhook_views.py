"""Webhooks, relays and dead letters as the API shows them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.rooms.events.model import Delivery, Relay, Webhook


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a target is, and whether it takes what it is sent."""

    state: str
    position: int
    behind: int
    failures: int
    error: str | None
    failing_since: datetime | None
    retry_at: datetime | None
    moved_at: datetime


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secret. `waiting` and `dead` count up to 1,000."""

    id: str
    url: str
    types: list[str]
    description: str
    created_at: datetime
    created_by: str
    progress: Progress | None = None
    waiting: int = 0
    dead: int = 0


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook and its new secret, which is shown this once, and again to a repeat under its `Idempotency-Key`.

    A repeat after the secret was replaced shows none.
    """

    id: str
    url: str
    types: list[str]
    version: int
    secret: str | None = None


class TestView(msgspec.Struct, frozen=True, kw_only=True):
    """What a test request came to."""

    delivered: bool
    milliseconds: int
    status: int | None = None
    error: str | None = None


class LetterView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a webhook did not take."""

    event_id: str
    type: str
    subject: str
    position: int
    state: str
    attempts: int
    error: str
    since: datetime
    event: msgspec.Raw


class RelaysView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest position, and how far the broker is if there is one."""

    position: int
    broker: Progress | None


def plain_view(webhook: Webhook) -> WebhookView:
    return WebhookView(
        id=webhook.id,
        url=webhook.url,
        types=list(webhook.types),
        description=webhook.description,
        created_at=webhook.created_at,
        created_by=webhook.created_by,
    )


def without_secret(webhook: Webhook) -> SecretView:
    """What is kept of the answer for repeats; a secret is kept in one place only, with its webhook."""
    return SecretView(id=webhook.id, url=webhook.url, types=list(webhook.types), version=webhook.version)


def progress_of(relay: Relay, head: int, now: datetime) -> Progress:
    is_held = not relay.is_free_at(now)
    return Progress(
        state="failing" if relay.failures else "delivering" if is_held else "unattended",
        position=relay.position,
        behind=max(0, head - relay.position),
        failures=relay.failures,
        error=relay.error or None,
        failing_since=relay.failing_since,
        retry_at=relay.retry_at,
        moved_at=relay.moved_at,
    )


def letter_view(delivery: Delivery) -> LetterView:
    return LetterView(
        event_id=delivery.event_id,
        type=delivery.type,
        subject=delivery.subject,
        position=delivery.position,
        state=delivery.state.value,
        attempts=delivery.attempts,
        error=delivery.error,
        since=delivery.since,
        event=msgspec.Raw(delivery.body.encode()),
    )
