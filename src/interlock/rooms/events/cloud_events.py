"""An event in the CloudEvents format, and the filters that readers choose events with."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from interlock.rooms.events.model import EVENT_TYPES, Event
from interlock.wire import events as wire

PREFIX = "dev.interlock."
MEDIA_TYPE = "application/cloudevents+json"


def cloud_event(event: Event, position: int) -> wire.Event:
    """An event as it leaves."""
    return wire.Event(
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


TYPES_MAX = 50


class BadTypes(ValueError):
    """A pattern that can match nothing; the message lists what exists."""


def read_types(patterns: Iterable[str]) -> tuple[str, ...]:
    """Patterns as they are kept: without the prefix of CloudEvents' types, checked, each once."""
    wanted = tuple(dict.fromkeys(pattern.strip().removeprefix(PREFIX) for pattern in patterns))
    if len(wanted) > TYPES_MAX:
        raise BadTypes(f"holds {len(wanted)} types; {TYPES_MAX} at most, or a pattern such as approval.*")
    for pattern in wanted:
        if pattern != "*" and not any(_matches(pattern, known) for known in EVENT_TYPES):
            raise BadTypes(f"no event has the type {pattern!r}; use {_known(pattern)}")
    return () if "*" in wanted else wanted


def _known(pattern: str) -> str:
    """What exists: the types of the noun that was named, or every noun."""
    noun = pattern.partition(".")[0]
    if own := [known for known in EVENT_TYPES if known.partition(".")[0] == noun]:
        return f"{noun}.* or one of {', '.join(own)}"
    nouns = dict.fromkeys(known.partition(".")[0] for known in EVENT_TYPES)
    return ", ".join(f"{each}.*" for each in nouns)


def wants(types: tuple[str, ...], event_type: str) -> bool:
    """Whether a reader of `types` wants this one; no types means every type."""
    return not types or any(_matches(pattern, event_type) for pattern in types)


def _matches(pattern: str, event_type: str) -> bool:
    if pattern.endswith(".*"):
        return event_type.startswith(pattern[:-1])
    return event_type == pattern
