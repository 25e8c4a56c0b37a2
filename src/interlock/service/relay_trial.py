"""Trying a webhook by hand: one signed test event, now, outside the outbox."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from interlock.kernel.codec.sealing import CannotUnseal
from interlock.kernel.ids import new_id
from interlock.rooms.events.cloud_events import MEDIA_TYPE, cloud_json
from interlock.rooms.events.model import Event, Webhook
from interlock.rooms.events.posting import Poster, Refused, signed_headers
from interlock.rooms.events.sealing import signing_secrets
from interlock.service.relays import posting_of
from interlock.service.settings import Settings
from interlock.service.webhook_relay import USER_AGENT

TEST_TYPE = "webhook.test"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a test request came to."""

    milliseconds: int
    status: int | None = None
    error: str | None = None


async def try_webhook(settings: Settings, webhook: Webhook) -> Tried:
    """Post a test event; its position is 0, which no real event has."""
    now = datetime.now(UTC)
    event = Event(tenant=webhook.tenant, id=new_id("evt"), at=now, type=TEST_TYPE, subject=webhook.id)
    body = cloud_json(event, 0)
    try:
        secrets = signing_secrets(webhook, now, settings.secret)
    except CannotUnseal as why:
        return Tried(milliseconds=0, error=str(why))
    headers = signed_headers(secrets, event.id, int(now.timestamp()), body)
    poster = Poster(webhook.url, posting_of(settings))
    began = time.monotonic()
    try:
        status = await poster.post({"content-type": MEDIA_TYPE, "user-agent": USER_AGENT, **headers}, body)
        return Tried(milliseconds=_since(began), status=status)
    except Refused as why:
        return Tried(milliseconds=_since(began), error=str(why))
    finally:
        await poster.close()


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
