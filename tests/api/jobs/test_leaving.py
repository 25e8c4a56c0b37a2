"""Work is handed to whoever is still there to do it."""

from __future__ import annotations

import asyncio

from interlock.wire.http import Request
from tests.rooms.jobs.job_client import JobClient


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
