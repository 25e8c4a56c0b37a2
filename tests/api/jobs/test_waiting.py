"""Waiting for a job, or for work: woken by the decision, ended by a server that stops or a client that leaves."""

from __future__ import annotations

import asyncio

from interlock.store import store_for
from interlock.wire.http import Request
from tests.harness.in_process_api import ASK, InProcessApi, open_api
from tests.rooms.jobs.job_client import JobClient

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


async def test_a_worker_that_goes_away_while_it_waits_is_given_no_job(client: JobClient) -> None:
    left = asyncio.Event()

    async def gone() -> None:
        await left.wait()

    request = Request(
        method="POST",
        path="/api/v1/jobs/claim",
        headers={"authorization": f"Bearer {client.worker}", "content-type": "application/json"},
        body=b'{"topics": ["free.a"], "wait_seconds": 60}',
        gone=gone,
    )
    waiting = asyncio.create_task(client.api.app.respond(request))
    await asyncio.sleep(0.05)
    left.set()
    await asyncio.sleep(0)
    job = await client.submit("free.a")

    answer = await asyncio.wait_for(waiting, 30)

    assert (answer.status, answer.body) == (200, b'{"jobs":[]}')
    assert (await client.api.job(job))["attempt"] == 0
    assert (await client.take("free.a"))["id"] == job
