"""Trying a webhook by hand: one signed test event, now, outside the outbox."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from interlock.codec.sealing import CannotUnseal
from interlock.kernel.ids import new_id
from interlock.outbox.cloud import MEDIA_TYPE, cloud_json
from interlock.outbox.model import Event
from interlock.relays.model import Webhook
from interlock.relays.posting import Poster, Refused
from interlock.relays.sealing import signing_secrets
from interlock.relays.signing import signed_headers
from interlock.runtime.relaying import posting_of
from interlock.runtime.settings import Settings
from interlock.runtime.webhook_relay import USER_AGENT

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
