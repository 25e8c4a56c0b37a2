"""Events are forgotten when they are old, and never before every relay has passed them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from interlock.rooms.events import queries
from tests.harness.webhook_receiver import Reply
from tests.service.conftest import Receive
from tests.service.relay_service import RelayService, relaying_service, utc_now


async def forgettable(relay_service: RelayService, *, older_than: timedelta) -> int:
    before = utc_now() - older_than
    up_to = await relay_service.relaying.settled_up_to(before)
    return len(await queries.forgettable(relay_service.service.store, before=before, up_to=up_to, limit=100))


async def test_old_events_are_forgotten_and_young_ones_kept(store_url: str) -> None:
    async with relaying_service(store_url, relaying=False) as relay_service:
        await relay_service.tell("a", times=3)
        await relay_service.until_placed(3)
        assert await forgettable(relay_service, older_than=timedelta(hours=1)) == 0
        assert await forgettable(relay_service, older_than=timedelta(0)) == 3


async def test_an_event_that_a_webhook_has_not_got_is_not_forgotten(store_url: str, receive: Receive) -> None:
    receiver = await receive()
    async with relaying_service(store_url, relaying=False) as relay_service:
        await relay_service.add_webhook(receiver.url, start_after=2)
        await relay_service.tell("a", times=5)
        await relay_service.until_placed(5)
        assert await forgettable(relay_service, older_than=timedelta(0)) == 2
        relay_service.relaying.start()
        await receiver.until_taken(3)
        async with asyncio.timeout(30):
            while await forgettable(relay_service, older_than=timedelta(0)) < 5:
                await asyncio.sleep(0.02)


async def test_tidying_drops_what_is_old_and_settled_however_much_it_is(store_url: str) -> None:
    async with relaying_service(store_url, relaying=False, event_days=0) as relay_service:
        await relay_service.add_webhook("https://example.com/", start_after=250)
        await relay_service.tell_all(subjects=26, times=10)
        await relay_service.until_placed(260)
        await relay_service.relaying.tidy_once()
        assert [placed.position for placed in await relay_service.placed()] == list(range(251, 261))


async def test_what_waits_for_a_webhook_outlives_the_event_itself(sqlite_url: str, receive: Receive) -> None:
    receiver = await receive(lambda _: Reply(status=500))
    async with relaying_service(
        sqlite_url, webhook_retry_most_seconds=0.1, webhook_attempts_max=1000
    ) as relay_service:
        await relay_service.add_webhook(receiver.url)
        await relay_service.tell("a")
        await receiver.until(lambda: len(receiver.received) >= 2)
        async with asyncio.timeout(30):
            while await forgettable(relay_service, older_than=timedelta(0)) < 1:
                await asyncio.sleep(0.02)
        before = utc_now() + timedelta(days=1)
        keys = await queries.forgettable(relay_service.service.store, before=before, up_to=1, limit=10)
        from interlock.rooms.events.model import Forget

        await relay_service.service.kernel.run(Forget(keys=keys))
        receiver.behave = lambda _: Reply()
        await receiver.until_taken(1)
        assert await relay_service.placed() == []
