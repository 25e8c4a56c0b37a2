"""Plain reads of webhooks, relays and deliveries."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.record import Key, micros
from interlock.relays.model import DELIVERIES, RELAYS, WEBHOOKS, Delivery, DeliveryState, Relay, Webhook
from interlock.store.contract import Store
from interlock.store.paging import Records, page_of
from interlock.store.unreadable import readable

COUNTED_MAX = 1000


async def list_webhooks(store: Store, tenant: str, *, before: str | None, limit: int) -> Records[Webhook]:
    """A tenant's webhooks, newest first."""
    return await page_of(store, WEBHOOKS, "relays.list_webhooks", {"tenant": tenant}, before, limit)


async def free_relays(store: Store, now: datetime, *, limit: int) -> list[Relay]:
    """Relays that nobody delivers for, the longest free first."""
    rows = await store.query("relays.free_relays", {"now": micros(now), "limit": limit})
    return readable(RELAYS, (row[0] for row in rows))


async def every_relay(store: Store, *, limit: int) -> list[Relay]:
    """Relays of every tenant, the one that is furthest behind first."""
    rows = await store.query("relays.every_relay", {"limit": limit})
    return readable(RELAYS, (row[0] for row in rows))


async def furthest_behind(store: Store) -> int | None:
    """The lowest position that a relay still stands at; None without relays."""
    rows = await store.query("relays.furthest_behind", {})
    return None if rows[0][0] is None else int(rows[0][0])


async def deliveries(
    store: Store, tenant: str, webhook: str, state: DeliveryState, *, after: int = 0, limit: int
) -> list[Delivery]:
    """A webhook's deliveries in one state, in the order of their events."""
    params = {"tenant": tenant, "webhook": webhook, "state": state.value, "after": after, "limit": limit}
    rows = await store.query("relays.list_deliveries", params)
    return readable(DELIVERIES, (row[0] for row in rows))


async def count_deliveries(store: Store, tenant: str, webhook: str, state: DeliveryState) -> int:
    """How many of a webhook's deliveries are in one state, at most `COUNTED_MAX`."""
    params = {"tenant": tenant, "webhook": webhook, "state": state.value, "limit": COUNTED_MAX}
    return int((await store.query("relays.count_deliveries", params))[0][0])


async def old_deliveries(store: Store, *, before: datetime, limit: int) -> tuple[Key, ...]:
    """Deliveries from before a time, whatever became of them."""
    rows = await store.query("relays.old_deliveries", {"before": micros(before), "limit": limit})
    return tuple(DELIVERIES.key(row[0], row[1]) for row in rows)
