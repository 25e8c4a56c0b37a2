"""Reading events by position, which is the only order a reader may go by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.kernel.record import Key, micros
from interlock.outbox.model import EVENTS, Placed
from interlock.store.contract import Row, Store
from interlock.store.unreadable import readable

BUSY = -1
PASS_MAX = 1000  # how many events a pass gives their positions; the schema says it


class News(msgspec.Struct, frozen=True):
    """How many events there are after a position, where the last of them is, and whose they are."""

    count: int
    position: int
    tenants: frozenset[str]


async def sequence(store: Store) -> int:
    """Give committed events their positions; how many, or `BUSY` if another server is doing it."""
    rows = await store.glance("outbox.sequence_events", {})
    return int(rows[0][0])


async def head(store: Store) -> int:
    """The newest position, 0 before the first event."""
    return _number(await store.query("outbox.head", {}))


async def oldest(store: Store) -> int:
    """The oldest position still kept, 0 if there is none."""
    return _number(await store.query("outbox.oldest", {}))


async def events_after(store: Store, tenant: str, after: int, *, limit: int) -> list[Placed]:
    """A tenant's events after a position, oldest first."""
    return _placed(
        await store.query("outbox.events_after", {"tenant": tenant, "after": after, "limit": limit})
    )


async def newest_events(store: Store, tenant: str, *, limit: int) -> list[Placed]:
    """A tenant's newest events, oldest first."""
    found = _placed(await store.query("outbox.newest_events", {"tenant": tenant, "limit": limit}))
    return found[::-1]


async def every_event_after(store: Store, after: int, *, limit: int) -> list[Placed]:
    """Events of all tenants after a position, oldest first."""
    return _placed(await store.query("outbox.every_event_after", {"after": after, "limit": limit}))


async def news_after(store: Store, after: int, *, limit: int) -> News:
    """What is new after a position, without the events themselves."""
    rows = await store.glance("outbox.news_after", {"after": after, "limit": limit})
    return News(
        count=sum(int(row[1]) for row in rows),
        position=max((int(row[2]) for row in rows), default=after),
        tenants=frozenset(str(row[0]) for row in rows),
    )


async def forgettable(store: Store, *, before: datetime, up_to: int, limit: int) -> tuple[Key, ...]:
    """Events from before a time that no relay needs any more."""
    params = {"before": micros(before), "up_to": up_to, "limit": limit}
    rows = await store.query("outbox.forgettable_events", params)
    return tuple(EVENTS.key(row[0], row[1]) for row in rows)


def _placed(rows: Sequence[Row]) -> list[Placed]:
    return [Placed(int(row[0]), event) for row in rows for event in readable(EVENTS, row[1:2])]


def _number(rows: Sequence[Row]) -> int:
    return int(rows[0][0] or 0) if rows else 0
