"""The loop that copies every event to the broker, while this server holds the broker's relay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.refusal import Fault, Refusal
from interlock.kernel.storage import Store, StoreDown
from interlock.kernel.wakes import Wakes
from interlock.rooms.events import jetstream
from interlock.rooms.events import queries as outbox
from interlock.rooms.events.jetstream import Broker, BrokerTarget
from interlock.rooms.events.model import BROKER, BrokerMark
from interlock.rooms.events.relay_leases import Trouble
from interlock.rooms.events.rules import POSITIONS_TOPIC
from interlock.service.measures import RelayMeasures
from interlock.service.relay_hold import HeldRelay

log = logging.getLogger(__name__)

PAGE = 200

_POLL_SECONDS = 2.0
_RETRY_SECONDS = (0.1, 5.0)


class BrokerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker's relay works with."""

    store: Store
    wakes: Wakes
    target: BrokerTarget
    measures: RelayMeasures
    now: Callable[[], datetime]


class BrokerRelay:
    """Publishes in the order of positions, and goes back when the broker has lost something."""

    def __init__(self, parts: BrokerParts, held: HeldRelay) -> None:
        self._parts = parts
        self._held = held

    async def run(self) -> None:
        """Copy until the relay is lost; the broker may come and go."""
        try:
            while True:
                try:
                    await self._connected()
                except (Refusal, Fault, StoreDown):
                    raise
                except Exception as error:  # noqa: BLE001 - whatever the client raises, the broker did not take it
                    await self._rest(error)
        finally:
            self._parts.measures.gone(BROKER)

    async def _connected(self) -> None:
        broker = await jetstream.connect(self._parts.target)
        try:
            with self._parts.wakes.subscribe(POSITIONS_TOPIC) as heard:
                while True:
                    mark = await self._checked(broker)
                    if not await self._copy(broker, mark):
                        await heard.wait(_POLL_SECONDS)
        finally:
            await broker.close()

    async def _checked(self, broker: Broker) -> BrokerMark:
        """Look at the stream before adding to it; if it has lost something, go back."""
        relay = self._held.relay
        found = await broker.look()
        if not jetstream.has_lost(relay.mark, found):
            return found
        # A stream that only lost its end says by its newest copy where it ends; another one says nothing.
        is_same = relay.mark is not None and relay.mark.created == found.created
        back_to = min(relay.position, await broker.last_position(found)) if is_same else 0
        if relay.mark is not None:
            log.warning(
                "the broker's stream lost events; sending again from position %d of %d",
                back_to,
                relay.position,
            )
            self._parts.measures.rewinds.add()
        await self._held.advance(back_to, found)
        return found

    async def _copy(self, broker: Broker, mark: BrokerMark) -> bool:
        """Publish one page; whether there was anything."""
        position = self._held.relay.position
        page = await outbox.every_event_after(self._parts.store, position, limit=PAGE)
        age = (self._parts.now() - page[0].event.at).total_seconds() if page else 0.0
        self._parts.measures.at(BROKER, position, age)
        if not page:
            return False
        last = await broker.publish(page)
        self._parts.measures.deliveries.add("broker", "taken", amount=len(page))
        reached = BrokerMark(mark.created, max(mark.sequence, last))
        await self._held.advance(page[-1].position, reached)
        return True

    async def _rest(self, error: Exception) -> None:
        """Keep why the broker takes nothing, and wait a little longer each time."""
        relay = self._held.relay
        failures = relay.failures + 1
        least, most = _RETRY_SECONDS
        seconds = min(most, least * 2.0 ** min(failures - 1, 30))
        why = f"{type(error).__name__}: {error}"[:300]
        log.info("the broker takes no events: %s; trying again in %.1f s", why, seconds)
        self._parts.measures.deliveries.add("broker", "refused")
        trouble = Trouble(
            failures=failures, error=why, retry_at=self._parts.now() + timedelta(seconds=seconds)
        )
        await self._held.advance(relay.position, relay.mark, trouble)
        await asyncio.sleep(seconds)
