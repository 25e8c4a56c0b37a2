"""How rooms write events, and how delivered events are deleted after their time."""

from __future__ import annotations

from typing import Any

from interlock.kernel.command import Command
from interlock.kernel.record import Key, Reads
from interlock.kernel.world import World
from interlock.rooms.audit.rules import without_fences
from interlock.rooms.events.model import EVENTS, Event

# Woken in every server by a commit with an event in it; whoever gives events their positions waits on it.
EVENTS_TOPIC = "events"
# Woken in a server once it has seen events with positions, of whichever tenant.
POSITIONS_TOPIC = "positions"


def events_topic(tenant: str) -> str:
    """What a reader of a tenant's events waits on; woken once they can be read."""
    return f"positions:{tenant}"


def announce(world: World, tenant: str, event_type: str, subject: str, data: dict[str, Any]) -> None:
    """Write an event that leaves if, and only if, this batch commits. Fences are for their holders, and stay."""
    event = Event(
        tenant=tenant,
        id=world.new_id("evt"),
        version=1,
        at=world.now,
        type=event_type,
        subject=subject,
        data=without_fences(data),
    )
    world.add(EVENTS, event)
    world.wake(EVENTS_TOPIC)


class ForgetEvents(Command[int], frozen=True, kw_only=True):
    """Drop events that every relay has passed; returns how many there still were."""

    keys: tuple[Key, ...]

    def reads(self) -> Reads:
        return Reads(own=self.keys)

    def decide(self, world: World) -> int:
        found = [event for key in self.keys if (event := world.get(EVENTS, key.tenant, key.id)) is not None]
        for event in found:
            world.delete(EVENTS, event)
        return len(found)
