"""Events, the webhooks they are posted to, those that were not accepted, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import Body, Given, Sometimes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened (a CloudEvent). `position` is its place among all events."""

    specversion: str = "1.0"
    id: str
    source: Given[str] = None
    type: str
    subject: str
    time: Given[datetime] = None
    datacontenttype: str = "application/json"
    position: str
    data: dict[str, Any] = {}


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, oldest first; pass `next_after` as `after` for what comes next."""

    items: tuple[Event, ...]
    next_after: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a target is: `delivering`, `failing`, or `unattended` if no server relays to it."""

    state: str
    position: int
    behind: int
    failures: int = 0
    error: str | None = None
    failing_since: datetime | None = None
    retry_at: datetime | None = None
    moved_at: Given[datetime] = None


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where events are posted. `waiting` and `dead` count up to 1,000.

    An answer that made a secret shows the address, the secret and its `version`, and nothing else. The secret is shown
    this once, and again to a repeat under its `Idempotency-Key`; a repeat after it was replaced shows null.
    """

    id: str
    url: str
    types: tuple[str, ...] = ()
    description: Sometimes[str] = ""
    created_at: Sometimes[datetime | None] = None
    created_by: Sometimes[str | None] = None
    progress: Sometimes[Progress | None] = None
    waiting: Sometimes[int] = 0
    dead: Sometimes[int] = 0
    version: Sometimes[int | None] = None
    secret: Sometimes[str | None] = None


class WebhookTest(msgspec.Struct, frozen=True, kw_only=True):
    """What a test request came to."""

    delivered: bool
    milliseconds: int
    status: int | None = None
    error: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a webhook did not take. `event` is what was posted."""

    event_id: str
    type: str
    subject: str
    position: int
    state: str
    attempts: int
    error: str = ""
    since: Given[datetime] = None
    event: Given[Event] = None


class Relays(msgspec.Struct, frozen=True, kw_only=True):
    """The newest position, and how far the broker is if there is one."""

    position: int
    broker: Progress | None = None


class AddWebhookBody(Body, frozen=True, kw_only=True):
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    types: (
        Annotated[list[Annotated[str, msgspec.Meta(max_length=100)]], msgspec.Meta(max_length=50)] | None
    ) = None
    description: Annotated[str, msgspec.Meta(max_length=500)] = ""
    secret: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, or was refused (`outcome` names the refusal)."""

    n: Given[int] = None
    id: Given[str] = None
    at: Given[datetime] = None
    actor: Given[str] = None
    action: str
    subject: Given[str] = None
    outcome: Given[str] = None
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}
