"""An event is there, and whoever waits for events is woken, as soon as what it tells of is decided."""

from __future__ import annotations

from interlock.rooms.events.model import EVENTS_TOPIC
from tests.harness.in_process_api import ASK, open_api


async def test_whoever_waits_for_events_is_woken_by_one() -> None:
    async with open_api() as api:
        await api.policy(ASK)
        bot = await api.agent()
        with api.service.kernel.wakes.subscribe(EVENTS_TOPIC) as heard:
            await api.propose(bot, {"amount": 1})
            assert await heard.wait(5)
