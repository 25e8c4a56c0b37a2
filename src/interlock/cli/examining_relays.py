"""What `interlock doctor` looks at in relays: targets that take nothing, and events that nobody sends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from interlock.cli.examining import Finding
from interlock.cli.wording import counted, safe
from interlock.sdk.outcomes import Forbidden

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.sdk.operations.events import Progress, Webhook

UNATTENDED_LONG = timedelta(minutes=1)


def examine_relays(client: Interlock) -> Iterator[Finding]:
    """Every finding about events on their way out; nothing for a caller who may not see webhooks."""
    try:
        webhooks, relays = client.webhooks(limit=200).items, client.relays()
    except Forbidden:
        return
    now = datetime.now(UTC)
    yield from failing_webhooks(webhooks)
    yield from dead_letters(webhooks)
    for name, progress in _every(webhooks, relays.broker):
        yield from unattended(name, progress, now)
    if relays.broker and relays.broker.failures:
        yield Finding(
            level="wrong",
            about="broker",
            text=f"it takes no events: {safe(relays.broker.error or '')}",
            since=relays.broker.failing_since,
            next_step="check INTERLOCK_NATS_URL and the broker; what it missed is sent when it is back",
        )


def failing_webhooks(webhooks: Sequence[Webhook]) -> Iterator[Finding]:
    """Which receivers take nothing?"""
    for webhook in webhooks:
        if webhook.progress and webhook.progress.failures:
            yield Finding(
                level="wrong",
                about="webhooks",
                text=f"{webhook.id} ({safe(webhook.url)}) takes nothing: {safe(webhook.progress.error or '')}",
                since=webhook.progress.failing_since,
                next_step=f"correct the receiver; interlock webhooks test {webhook.id} tries it at once",
            )


def dead_letters(webhooks: Sequence[Webhook]) -> Iterator[Finding]:
    """What was never taken, and waits for somebody to send it again?"""
    for webhook in webhooks:
        if webhook.dead:
            yield Finding(
                level="note",
                about="webhooks",
                text=f"{webhook.id} has {counted(webhook.dead, 'dead letter')}",
                next_step=f"interlock webhooks letters {webhook.id}",
            )


def unattended(name: str, progress: Progress, now: datetime) -> Iterator[Finding]:
    """Is there anything to send, and no server that sends it?"""
    since = progress.moved_at or now
    if progress.state == "unattended" and progress.behind and now - since > UNATTENDED_LONG:
        yield Finding(
            level="wrong",
            about="relays",
            text=f"{name} is {counted(progress.behind, 'event')} behind, and no server relays to it",
            since=since,
            next_step="keep one `interlock serve` running, without INTERLOCK_RELAY=false",
        )


def _every(webhooks: Sequence[Webhook], broker: Progress | None) -> Iterator[tuple[str, Progress]]:
    yield from ((webhook.id, webhook.progress) for webhook in webhooks if webhook.progress)
    if broker:
        yield "the broker", broker
