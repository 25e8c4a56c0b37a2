"""Events in order, and the webhooks that they are sent to."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.sdk.calls import change, fetch, given, path, words
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire.events import AddWebhookBody, DeadLetter, EventPage, Relays, Webhook, WebhookTest
from interlock.wire.fields import Page


def events(
    session: Session,
    *,
    after: int | None = None,
    types: Sequence[str] = (),
    limit: int | None = None,
    wait_seconds: float = 0,
) -> Flow[EventPage]:
    """Read events after a position, oldest first, or the newest ones; wait for the first if asked to."""
    query = {
        "after": after,
        "types": ",".join(words(types)) or None,
        "limit": limit,
        "wait_seconds": str(wait_seconds) if wait_seconds else None,
    }
    return (yield from fetch(session, path("events", "page"), EventPage, query, hold_seconds=wait_seconds))


def webhooks(session: Session, *, limit: int | None = None, cursor: str | None = None) -> Flow[Page[Webhook]]:
    """List where events are posted, newest first."""
    return (yield from fetch(session, path("webhooks"), Page[Webhook], {"limit": limit, "cursor": cursor}))


def get_webhook(session: Session, webhook_id: str) -> Flow[Webhook]:
    """Read one webhook: where it posts, which types, and how far it is. Raises `NotFound`."""
    return (yield from fetch(session, path("webhooks", webhook_id), Webhook))


def add_webhook(
    session: Session, url: str, *, types: Sequence[str] = (), description: str = "", key: str | None = None
) -> Flow[Webhook]:
    """Post events to `url` from now on; the answer shows the signing secret, this once."""
    body = given(AddWebhookBody, url=url, types=words(types) or None, description=description or None)
    return (yield from change(session, path("webhooks"), Webhook, body, key=key))


def remove_webhook(session: Session, webhook_id: str) -> Flow[Webhook]:
    """Post nothing more to a webhook."""
    where = path("webhooks", webhook_id)
    return (yield from change(session, where, Webhook, key=None, method="DELETE"))


def rotate_webhook(session: Session, webhook_id: str, *, key: str | None = None) -> Flow[Webhook]:
    """Sign with a new secret; the old one signs too for a day."""
    return (yield from change(session, path("webhooks", webhook_id, "rotate"), Webhook, key=key))


def test_webhook(session: Session, webhook_id: str) -> Flow[WebhookTest]:
    """Post a test event now, and say what the receiver answered."""
    return (yield from change(session, path("webhooks", webhook_id, "test"), WebhookTest, key=None))


def dead_letters(
    session: Session, webhook_id: str, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[DeadLetter]]:
    """List the events that a webhook never took, oldest first."""
    where = path("webhooks", webhook_id, "dead-letters")
    return (yield from fetch(session, where, Page[DeadLetter], {"limit": limit, "cursor": cursor}))


def redeliver_dead_letter(
    session: Session, webhook_id: str, event_id: str, *, key: str | None = None
) -> Flow[DeadLetter]:
    """Try a dead letter again."""
    where = path("webhooks", webhook_id, "dead-letters", event_id, "redeliver")
    return (yield from change(session, where, DeadLetter, key=key))


def relays(session: Session) -> Flow[Relays]:
    """Read the newest position, and how far the broker is."""
    return (yield from fetch(session, path("relays"), Relays))
