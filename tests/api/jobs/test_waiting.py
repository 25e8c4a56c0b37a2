"""Waiting for a job: woken by the decision, let go by a server that stops."""

from __future__ import annotations

import asyncio

from interlock.store.urls import store_for
from tests.harness.in_process_api import ASK, InProcessApi, open_api

HANG_SECONDS = 30


async def test_whoever_waits_for_a_decision_is_told_when_it_falls(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    async with asyncio.timeout(HANG_SECONDS):
        waiting = asyncio.create_task(api.call("GET", f"jobs/{job}?wait_seconds=60", bot))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await api.approve(job, ada)
        seen = await waiting

    assert seen.document["state"] == "PENDING"


async def test_a_decision_on_another_server_wakes_who_waits_here(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as here, open_api(store_for(durable_url)) as there:
        await here.policy(ASK)
        bot, ada = await here.agent(), await here.person("ada")
        job = await here.submit(bot)

        async with asyncio.timeout(HANG_SECONDS):
            waiting = asyncio.create_task(here.call("GET", f"jobs/{job}?wait_seconds=60", bot))
            await asyncio.sleep(0.2)
            await there.approve(job, ada)
            seen = await waiting

    assert seen.document["state"] == "PENDING"


async def test_waiting_for_something_decided_does_not_wait(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, topic="read")

    async with asyncio.timeout(HANG_SECONDS):
        seen = await api.call("GET", f"jobs/{job}?wait_seconds=60", bot)

    assert seen.document["state"] == "PENDING"


async def test_a_server_that_stops_answers_whoever_waits(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)

    async with asyncio.timeout(HANG_SECONDS):
        waiting = asyncio.create_task(api.call("GET", f"jobs/{job}?wait_seconds=60", bot))
        await asyncio.sleep(0.05)
        api.service.stop_waiting()
        seen = await waiting

    assert (seen.status, seen.document["state"]) == (200, "APPROVAL")
