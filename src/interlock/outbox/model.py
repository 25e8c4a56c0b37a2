"""Events waiting to leave."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import Kind, Record, micros


class Event(Record, frozen=True, kw_only=True):
    """Something that happened, for the outside. `type` is dotted: `approval.approved`."""

    at: datetime
    type: str
    subject: str
    data: dict[str, Any] = {}


class Placed(msgspec.Struct, frozen=True):
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
