"""What a worker says while the service is away."""

from __future__ import annotations

import asyncio
import logging

import pytest

from interlock import AsyncInterlock, Worker
from interlock.sdk.flow import Request, Response
from interlock.sdk.retry import NO_RETRIES
from tests.sdk.scripted_server import serving
from tests.sdk.virtual_time import problem, success

HANG_SECONDS = 60


async def test_a_worker_says_once_that_it_cannot_claim_and_once_that_it_can_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = [problem(503, "store_unavailable"), problem(503, "store_unavailable"), success(jobs=[])]
    loop = asyncio.get_running_loop()

    def answer(_: Request) -> Response:
        if len(answers) == 1:
            loop.call_soon_threadsafe(loop.call_later, 0.2, worker.stop)
            return answers[0]
        return answers.pop(0)

    with serving(answer) as server, caplog.at_level(logging.WARNING, "interlock.sdk.worker"):
        worker = Worker(AsyncInterlock(server.url, key="il_any", retry=NO_RETRIES), lease_seconds=30)
        worker.handler("a.b")(lambda _: None)
        async with asyncio.timeout(HANG_SECONDS):
            await worker.serve()
    said = [record.getMessage() for record in caplog.records if record.name == "interlock.sdk.worker"]
    assert len(said) == 2, said
    assert said[0].startswith("cannot claim work: ")
    assert said[1] == "claiming work again"
