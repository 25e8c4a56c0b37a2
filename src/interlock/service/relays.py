"""Relays of this server: takes those that no server holds, runs them, and deletes old events.

Any number of servers may do this at once. Each destination has one relay at a time, by a lease with a fence;
when a server dies, another takes its relays once their leases are over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

from interlock.kernel.ids import TellTime
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault, Refusal
from interlock.kernel.storage import Store, StoreDown
from interlock.rooms.events import queries
from interlock.rooms.events.model import (
    DEPLOYMENT,
    RELAYS_TOPIC,
    Forget,
    Relay,
    RelayGone,
    RelayHeld,
    RelayLost,
)
from interlock.service.channel import Channels, Destinations, RelayKey
from interlock.service.event_feed import EventFeed
from interlock.service.measures import RelayMeasures
from interlock.service.relay_loop import HeldRelay, RelayLoop, RelayParts, holding
from interlock.service.settings import Settings

log = logging.getLogger(__name__)

# At once; with more destinations than this, a relay with nothing to deliver gives way to one that waits.
RELAYS_MAX = 200

_LOOK_SECONDS = 1.0
_TIDY_SECONDS = 30.0
_TIDY_MAX = 200
_RELAYS_LISTED_MAX = 1000


class Relaying:
    """The relays that this server holds, and the loop that takes more."""

    def __init__(
        self,
        kernel: Kernel,
        store: Store,
        feed: EventFeed,
        measures: RelayMeasures,
        settings: Settings,
        channels: Channels,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self.holder = f"server_{uuid4().hex}"
        self._kernel = kernel
        self._store = store
        self._feed = feed
        self._settings = settings
        self._now = now
        self._destinations = Destinations(channels, store, settings, now)
        self._parts = RelayParts(
            store=store,
            wakes=kernel.wakes,
            destinations=self._destinations,
            settings=settings,
            measures=measures,
            gives_way=self._gives_way,
            now=now,
        )
        self._running: dict[RelayKey, asyncio.Task[None]] = {}
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None
        measures.follow(lambda: feed.position)
        feed.is_relayed = lambda: bool(self._running)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="relaying")

    async def close(self) -> None:
        """Release every relay, so that another server can take them at once."""
        tasks = [*([self._task] if self._task else []), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        tidied_at = 0.0
        loop = asyncio.get_running_loop()
        with self._kernel.wakes.subscribe(RELAYS_TOPIC) as heard:
            while True:
                try:
                    await self._feed.start()
                    await self.take_free()
                    if loop.time() - tidied_at > _TIDY_SECONDS:
                        tidied_at = loop.time()
                        await self.tidy_once()
                except (Fault, StoreDown) as fault:
                    log.debug("relays wait for the store: %s", fault)
                except Exception:
                    log.exception("taking relays broke; trying again in %.1f s", _LOOK_SECONDS)
                await heard.wait(_LOOK_SECONDS * random.uniform(0.75, 1.25))

    async def take_free(self) -> None:
        """Begin to relay to every destination that no server relays to."""
        # By the store's time, at which they become free; this machine's clock may be behind it.
        now = await self._kernel.run(TellTime())
        free = await queries.free_relays(self._store, now, limit=RELAYS_MAX)
        keys = [(relay.tenant, relay.id) for relay in free if relay.tenant != DEPLOYMENT]
        random.shuffle(keys)
        keys = [key for key in (*self._destinations.of_deployment(), *keys) if key not in self._running]
        room = max(0, RELAYS_MAX - len(self._running))
        for key in keys[:room]:
            task = asyncio.create_task(self._relay(key), name=f"relay-{key[1]}")
            self._running[key] = task
            task.add_done_callback(lambda _, ended=key: self._running.pop(ended, None))
        self._waiting = len(keys[room:])

    def _gives_way(self) -> bool:
        """Whether a relay that can stop should stop, to make room for one that could not be taken."""
        if self._waiting == 0:
            return False
        self._waiting -= 1
        return True

    async def tidy_once(self) -> None:
        """Forget events and deliveries that are old enough and that no relay needs."""
        before = self._now() - timedelta(days=self._settings.event_days)
        up_to = await self.settled_up_to(before)
        events = partial(queries.forgettable, self._store, before=before, up_to=up_to, limit=_TIDY_MAX)
        deliveries = partial(queries.old_deliveries, self._store, before=before, limit=_TIDY_MAX)
        for find in (events, deliveries):
            forgotten = _TIDY_MAX
            while forgotten == _TIDY_MAX:
                keys = await find()
                forgotten = await self._kernel.run(Forget(keys=keys)) if keys else 0

    async def settled_up_to(self, before: datetime) -> int:
        """The position that every relay has passed."""
        relays = await queries.every_relay(self._store, limit=_RELAYS_LISTED_MAX)
        needed = [relay.position for relay in relays if not self._is_abandoned(relay, before)]
        return min(needed, default=await queries.head(self._store))

    def _is_abandoned(self, relay: Relay, before: datetime) -> bool:
        """Whether it was configured once, and no server has relayed to it for as long as events are kept."""
        key = (relay.tenant, relay.id)
        if relay.tenant != DEPLOYMENT or key in self._destinations.of_deployment():
            return False
        return relay.held_until is None or relay.held_until < before

    async def _relay(self, key: RelayKey) -> None:
        tenant, relay_id = key
        try:
            if await self._destinations.find(tenant, relay_id) is None:
                return  # It was removed, or its channel is one that only newer servers have: left to them.
            async with holding(
                self._kernel,
                tenant,
                relay_id,
                holder=self.holder,
                lease_seconds=self._settings.relay_lease_seconds,
            ) as held:
                await _until_lost(held, RelayLoop(self._parts, held))
        except (RelayHeld, RelayLost, RelayGone) as refusal:
            log.debug("%s: %s", relay_id, refusal)
        except (Fault, Refusal, StoreDown) as fault:
            log.info("relay %s stops for now: %s", relay_id, fault)
        except Exception:
            log.exception("relay %s broke; it is taken again", relay_id)
            await asyncio.sleep(_LOOK_SECONDS)


async def _until_lost(held: HeldRelay, relay: RelayLoop) -> None:
    """Run a relay's loop; stop it the moment that another server may have taken over."""
    running = asyncio.create_task(relay.run())
    losing = asyncio.create_task(held.lost.wait())
    try:
        await asyncio.wait({running, losing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (running, losing):
            task.cancel()
        outcome, _ = await asyncio.gather(running, losing, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome
