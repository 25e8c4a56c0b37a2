"""Events as they leave: CloudEvents 1.0 in JSON.

`id` is the event's own and stays the same however often it is sent; `source` and `id` together name it in
all the world. `position` is its place among all events of the deployment: later is higher, and a reader
who knows one can go on from there. It is a string, as CloudEvents' integers have 32 bits.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.outbox.model import Event

PREFIX = "dev.interlock."
MEDIA_TYPE = "application/cloudevents+json"


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the outside."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str = "application/json"
    position: str
    data: dict[str, Any]


def cloud_event(event: Event, position: int) -> CloudEvent:
    """An event as it leaves."""
    return CloudEvent(
        id=event.id,
        source=f"/interlock/{event.tenant}",
        type=PREFIX + event.type,
        subject=event.subject,
        time=event.at,
        position=str(position),
        data=event.data,
    )


_encode = msgspec.json.Encoder().encode


def cloud_json(event: Event, position: int) -> bytes:
    """An event as it leaves, in the bytes that are signed and sent."""
    return _encode(cloud_event(event, position))
