"""A handler that ends oddly ends its own job, and neither the worker nor its other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, AsyncWork, Final, Work, Worker

HANG_SECONDS = 60


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncInterlock]:
    opened = AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db")
    await opened.apply_policy("version: v1\ndefault: allow\n")
    yield opened
    await opened.close()


async def play(client: AsyncInterlock, worker: Worker, max_attempts: int = 1) -> tuple[str, str]:
    """Give the worker a job that quits beside a calm one, which is done; how the first ends, and what is said of it."""
    ended = asyncio.Event()

    @worker.handler("calm")
    async def calm(_: AsyncWork) -> str:
        await ended.wait()
        return "done"

    quits = await client.submit("quits", {}, max_attempts=max_attempts)
    beside = await client.submit("calm", {})
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(HANG_SECONDS):
        while (job := await client.get_job(quits.id)).state not in ("FAILED", "SUCCEEDED"):
            assert not serving.done()
            await asyncio.sleep(0.02)
        ended.set()
        await serving
    assert (await client.get_job(beside.id)).state == "SUCCEEDED"
    return job.state, job.error["message"]


@pytest.mark.parametrize("quitting", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_function_that_quits_fails_its_own_job_alone(
    client: AsyncInterlock, quitting: BaseException
) -> None:
    worker = Worker(client, jobs_max=2)

    @worker.handler("quits")
    def handler(_: Work) -> None:
        raise quitting

    state, message = await play(client, worker)
    assert (state, type(quitting).__name__ in message) == ("FAILED", True)


@pytest.mark.parametrize("quitting", [SystemExit(3), asyncio.CancelledError()])
async def test_a_coroutine_that_quits_fails_its_own_job_alone(
    client: AsyncInterlock, quitting: BaseException
) -> None:
    worker = Worker(client, jobs_max=2)

    @worker.handler("quits")
    async def handler(_: AsyncWork) -> None:
        raise quitting

    state, message = await play(client, worker)
    assert (state, type(quitting).__name__ in message) == ("FAILED", True)


async def test_a_coroutine_that_waits_for_something_cancelled_uses_its_attempts_up(
    client: AsyncInterlock,
) -> None:
    worker, attempts = Worker(client, jobs_max=3), list[int]()

    @worker.handler("quits")
    async def handler(work: AsyncWork) -> None:
        attempts.append(work.attempt)
        other = asyncio.create_task(asyncio.sleep(HANG_SECONDS))
        other.cancel()
        await other

    await play(client, worker, max_attempts=2)
    assert attempts == [1, 2]


async def test_a_handler_that_only_returns_what_would_do_the_work_has_not_done_it(
    client: AsyncInterlock,
) -> None:
    worker, ran = Worker(client, jobs_max=2), list[int]()

    @worker.handler("quits")
    def handler(work: Work) -> Iterator[int]:
        ran.append(work.attempt)
        yield work.attempt

    state, message = await play(client, worker)
    assert (state, "nothing was done" in message, ran) == ("FAILED", True, [])


@pytest.mark.parametrize("said", ["no file \udcff", "no file \0"])
async def test_what_is_final_is_final_whatever_characters_say_so(client: AsyncInterlock, said: str) -> None:
    worker, attempts = Worker(client, jobs_max=2), list[int]()

    @worker.handler("quits")
    def handler(work: Work) -> None:
        attempts.append(work.attempt)
        raise Final(said)

    assert await play(client, worker, max_attempts=2) == ("FAILED", "no file ?")
    assert attempts == [1]
