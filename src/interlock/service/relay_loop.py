"""The loop that posts a tenant's events to one webhook, while this server holds its relay."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from interlock.kernel.codec.sealing import CannotUnseal
from interlock.kernel.storage import Store
from interlock.kernel.wakes import Wakes
from interlock.rooms.events import deliveries, queries
from interlock.rooms.events import queries as outbox
from interlock.rooms.events.cloud_events import MEDIA_TYPE, wants
from interlock.rooms.events.deliveries import Backoff, Tally
from interlock.rooms.events.model import WEBHOOKS, Delivery, DeliveryState, Placed, Webhook, relay_topic
from interlock.rooms.events.posting import CONNECTIONS_MAX, Poster, Posting, Refused, signed_headers
from interlock.rooms.events.rules import events_topic
from interlock.rooms.events.sealing import signing_secrets
from interlock.service.measures import RelayMeasures
from interlock.service.relay_hold import HeldRelay

SCANNED_MAX = 500
USER_AGENT = "interlock-webhook/1"

_POLL_SECONDS = 5.0
_TURN_SECONDS = 10.0
_UNSAVED_MAX = 1000


class WebhookParts(msgspec.Struct, frozen=True, kw_only=True):
    """What every webhook's relay shares."""

    store: Store
    wakes: Wakes
    posting: Posting
    backoff: Backoff
    measures: RelayMeasures
    gives_way: Callable[[], bool]
    now: Callable[[], datetime]
    secret: str = ""


class WebhookRelay:
    """Posts events in the order of positions, each subject in its own lane."""

    def __init__(self, parts: WebhookParts, held: HeldRelay) -> None:
        self._parts = parts
        self._held = held
        self._position = held.relay.position
        self._poster: Poster | None = None

    async def run(self) -> None:
        """Deliver until the webhook is removed, the relay is lost, or it is another's turn."""
        relay = self._held.relay
        turn_ends = time.monotonic() + _TURN_SECONDS
        topics = (events_topic(relay.tenant), relay_topic(relay.tenant, relay.id))
        try:
            with self._parts.wakes.subscribe(*topics) as heard:
                while (webhook := await self._parts.store.get(WEBHOOKS, relay.tenant, relay.id)) is not None:
                    pause = await self._round(webhook)
                    if (pause > 0 or time.monotonic() >= turn_ends) and self._parts.gives_way():
                        return
                    if pause > 0:
                        await heard.wait(pause)
        finally:
            self._parts.measures.gone(relay.id)
            if self._poster:
                await self._poster.close()

    async def _round(self, webhook: Webhook) -> float:
        """Try what is due and what is new; returns how long to wait before the next round."""
        waiting = await queries.deliveries(
            self._parts.store, webhook.tenant, webhook.id, DeliveryState.WAITING, limit=deliveries.WAITING_MAX
        )
        now = self._parts.now()
        scanned, fresh = await self._fresh(webhook, waiting, now)
        age = (now - scanned[0].event.at).total_seconds() if scanned else 0.0
        self._parts.measures.at(webhook.id, self._position, age)
        news = [deliveries.as_delivery(placed, webhook.id, now) for placed in fresh]
        planned = deliveries.plan_round(waiting, news, now)
        tally = await self._try(webhook, planned.lanes)
        tally.kept.extend(planned.parked)
        tried = [delivery for lane in planned.lanes for delivery in lane]
        position = scanned[-1].position if scanned else self._position
        await self._settle(position, tally, waiting, tried)
        return 0.0 if tried or fresh or len(scanned) == SCANNED_MAX else self._pause(waiting, now)

    async def _fresh(
        self, webhook: Webhook, waiting: Sequence[Delivery], now: datetime
    ) -> tuple[list[Placed], list[Placed]]:
        """Events not looked at yet, and those of them to take on now."""
        if len(waiting) >= deliveries.WAITING_MAX:
            return [], []
        limit = SCANNED_MAX if webhook.types else deliveries.FRESH_MAX
        scanned = await outbox.events_after(self._parts.store, webhook.tenant, self._position, limit=limit)
        wanted = [placed for placed in scanned if wants(webhook.types, placed.event.type)]
        fresh = deliveries.choose_fresh(self._held.relay, waiting, wanted, now)
        if len(fresh) < len(wanted):
            left = wanted[len(fresh)].position
            scanned = [placed for placed in scanned if placed.position < left]
        return scanned, fresh

    async def _try(self, webhook: Webhook, lanes: Sequence[Sequence[Delivery]]) -> Tally:
        tally = Tally()
        slots = asyncio.Semaphore(CONNECTIONS_MAX)

        async def run_lane(lane: Sequence[Delivery]) -> None:
            async with slots:
                await self._try_lane(webhook, lane, tally)

        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(run_lane(lane))
        return tally

    async def _try_lane(self, webhook: Webhook, lane: Sequence[Delivery], tally: Tally) -> None:
        for place, delivery in enumerate(lane):
            try:
                await self._post(webhook, delivery)
            except Refused as why:
                self._note_refusal(delivery, why, tally)
                tally.kept.extend(each for each in lane[place + 1 :] if not each.version)
                return
            tally.taken += 1
            self._parts.measures.deliveries.add("webhook", "taken")
            if delivery.version:
                tally.done.append(delivery.id)

    async def _post(self, webhook: Webhook, delivery: Delivery) -> None:
        """Post one event, if there is time enough to do it before another server may."""
        await self._until_safe()
        body = delivery.body.encode()
        try:
            secrets = signing_secrets(webhook, self._parts.now(), self._parts.secret)
        except CannotUnseal as why:
            raise Refused(str(why)) from None
        headers = signed_headers(secrets, delivery.event_id, int(time.time()), body)
        await self._poster_for(webhook.url).post(
            {"content-type": MEDIA_TYPE, "user-agent": USER_AGENT, **headers}, body
        )

    async def _until_safe(self) -> None:
        """Wait for a renewal if what is left of the lease would not cover a slow answer."""
        needed = min(self._parts.posting.timeout_seconds, self._held.lease_seconds / 2)
        while self._held.seconds_left() < needed:  # noqa: ASYNC110 - time runs out by itself
            await asyncio.sleep(0.05)

    def _note_refusal(self, delivery: Delivery, why: Refused, tally: Tally) -> None:
        backoff = self._parts.backoff
        rest = backoff.rest(delivery.attempts + 1, random.random())
        rest = max(rest, min(why.retry_after_seconds, backoff.most_seconds))
        kept = deliveries.refused(delivery, str(why), self._parts.now(), rest, backoff.attempts_max)
        is_dead = kept.state is DeliveryState.DEAD
        tally.kept.append(kept)
        tally.refused += 1
        tally.dead += is_dead
        tally.error = str(why)
        self._parts.measures.deliveries.add("webhook", "dead" if is_dead else "refused")

    async def _settle(
        self, position: int, tally: Tally, waiting: Sequence[Delivery], tried: Sequence[Delivery]
    ) -> None:
        now = self._parts.now()
        relay = self._held.relay
        if tally.taken and relay.failures >= deliveries.OUTAGE_ROUNDS:
            tally.kept.extend(deliveries.hastened(waiting, tried, now))
        self._position = position
        if tried or tally.kept or position - relay.position > _UNSAVED_MAX:
            trouble = deliveries.trouble_after(tally, relay, now, self._parts.backoff)
            await self._held.settle(
                position, taken=tuple(tally.done), kept=tuple(tally.kept), trouble=trouble
            )

    def _pause(self, waiting: Sequence[Delivery], now: datetime) -> float:
        due = [deliveries.next_due(waiting), self._held.relay.retry_at]
        waits = [(moment - now).total_seconds() for moment in due if moment is not None and moment > now]
        return min([_POLL_SECONDS, *waits]) + 0.001

    def _poster_for(self, url: str) -> Poster:
        if self._poster is None:
            self._poster = Poster(url, self._parts.posting)
        return self._poster
