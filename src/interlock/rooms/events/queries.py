"""Reading events and webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.kernel.pages import Records, page_of, readable
from interlock.kernel.record import Key, micros
from interlock.kernel.storage import Row, Store
from interlock.rooms.events.model import (
    DELIVERIES,
    EVENTS,
    RELAYS,
    WEBHOOKS,
    Delivery,
    DeliveryState,
    PlacedEvent,
    Relay,
    Webhook,
)

BUSY = -1
PASS_MAX = 1000  # how many events a pass gives their positions; the schema says it


class News(msgspec.Struct, frozen=True):
    """How many events there are after a position, where the last of them is, and whose they are."""

    count: int
    position: int
    tenants: frozenset[str]


async def sequence(store: Store) -> int:
    """Give committed events their positions; how many, or `BUSY` if another server is doing it."""
    rows = await store.glance("events.sequence_events", {})
    return int(rows[0][0])


async def head(store: Store) -> int:
    """The newest position, 0 before the first event."""
    return _number(await store.query("events.head", {}))


async def oldest(store: Store) -> int:
    """The oldest position still kept, 0 if there is none."""
    return _number(await store.query("events.oldest", {}))


async def events_after(store: Store, tenant: str, after: int, *, limit: int) -> list[PlacedEvent]:
    """A tenant's events after a position, oldest first."""
    return _placed(
        await store.query("events.events_after", {"tenant": tenant, "after": after, "limit": limit})
    )


async def newest_events(store: Store, tenant: str, *, limit: int) -> list[PlacedEvent]:
    """A tenant's newest events, oldest first."""
    found = _placed(await store.query("events.newest_events", {"tenant": tenant, "limit": limit}))
    return found[::-1]


async def every_event_after(store: Store, after: int, *, limit: int) -> list[PlacedEvent]:
    """Events of all tenants after a position, oldest first."""
    return _placed(await store.query("events.every_event_after", {"after": after, "limit": limit}))


async def news_after(store: Store, after: int, *, limit: int) -> News:
    """How many events come after a position and of which tenants, without the events themselves."""
    rows = await store.glance("events.news_after", {"after": after, "limit": limit})
    return News(
        count=sum(int(row[1]) for row in rows),
        position=max((int(row[2]) for row in rows), default=after),
        tenants=frozenset(str(row[0]) for row in rows),
    )


async def forgettable(store: Store, *, before: datetime, up_to: int, limit: int) -> tuple[Key, ...]:
    """Events from before a time that no relay needs any more."""
    params = {"before": micros(before), "up_to": up_to, "limit": limit}
    rows = await store.query("events.forgettable_events", params)
    return tuple(EVENTS.key(row[0], row[1]) for row in rows)


def _placed(rows: Sequence[Row]) -> list[PlacedEvent]:
    return [PlacedEvent(int(row[0]), event) for row in rows for event in readable(EVENTS, row[1:2])]


def _number(rows: Sequence[Row]) -> int:
    return int(rows[0][0] or 0) if rows else 0


COUNTED_MAX = 1000


async def list_webhooks(store: Store, tenant: str, *, before: str | None, limit: int) -> Records[Webhook]:
    """A tenant's webhooks, newest first."""
    return await page_of(store, WEBHOOKS, "events.list_webhooks", {"tenant": tenant}, before, limit)


async def free_relays(store: Store, now: datetime, *, limit: int) -> list[Relay]:
    """Relays that no server holds, the longest free first."""
    rows = await store.query("events.free_relays", {"now": micros(now), "limit": limit})
    return readable(RELAYS, (row[0] for row in rows))


async def every_relay(store: Store, *, limit: int) -> list[Relay]:
    """Relays of every tenant, the one that is furthest behind first."""
    rows = await store.query("events.every_relay", {"limit": limit})
    return readable(RELAYS, (row[0] for row in rows))


async def deliveries(
    store: Store, tenant: str, webhook: str, state: DeliveryState, *, after: int = 0, limit: int
) -> list[Delivery]:
    """A webhook's deliveries in one state, in the order of their events."""
    params = {"tenant": tenant, "webhook": webhook, "state": state.value, "after": after, "limit": limit}
    rows = await store.query("events.list_deliveries", params)
    return readable(DELIVERIES, (row[0] for row in rows))


async def count_deliveries(store: Store, tenant: str, webhook: str, state: DeliveryState) -> int:
    """How many of a webhook's deliveries are in one state, at most `COUNTED_MAX`."""
    params = {"tenant": tenant, "webhook": webhook, "state": state.value, "limit": COUNTED_MAX}
    return int((await store.query("events.count_deliveries", params))[0][0])


async def old_deliveries(store: Store, *, before: datetime, limit: int) -> tuple[Key, ...]:
    """Deliveries from before a time, in any state."""
    rows = await store.query("events.old_deliveries", {"before": micros(before), "limit": limit})
    return tuple(DELIVERIES.key(row[0], row[1]) for row in rows)
