"""Every channel there is. A new one is a file beside this one and a line here (CONTRIBUTING.md)."""

from __future__ import annotations

from interlock.channels.nats import NatsChannel
from interlock.channels.webhook import WebhookChannel
from interlock.service.channel import Channel

CHANNELS: tuple[type[Channel], ...] = (
    WebhookChannel,
    NatsChannel,
)
