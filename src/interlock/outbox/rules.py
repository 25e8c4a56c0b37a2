"""How rooms announce what they did."""

from __future__ import annotations

from typing import Any

from interlock.kernel.world import World
from interlock.outbox.model import EVENTS, Event


def events_topic(tenant: str) -> str:
    """What a reader of a tenant's events waits on."""
    return f"events:{tenant}"


def announce(world: World, tenant: str, event_type: str, subject: str, data: dict[str, Any]) -> None:
    """Write an event that leaves if, and only if, this batch commits."""
    world.add(
        EVENTS,
        Event(
            tenant=tenant, id=world.new_id("evt"), at=world.now, type=event_type, subject=subject, data=data
        ),
    )
    world.wake(events_topic(tenant))
