"""What a store's events say, by what they are about, read the way that relays read them."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from interlock.kernel.storage import Store
from interlock.rooms.events.model import EVENTS

_PAGE = 1000


async def events_by_subject(store: Store, tenant: str = "default") -> dict[str, list[str]]:
    """The types of a tenant's events about each thing, oldest first."""
    while (await store.query("events.sequence_events", {}))[0][0]:
        await asyncio.sleep(0)  # Whoever else gives positions now will be done soon.
    found: dict[str, list[str]] = defaultdict(list)
    after = 0
    while rows := await store.query(
        "events.events_after", {"tenant": tenant, "after": after, "limit": _PAGE}
    ):
        after = rows[-1][0]
        for _, body in rows:
            event = EVENTS.decode(body)
            found[event.subject].append(event.type)
    return found
