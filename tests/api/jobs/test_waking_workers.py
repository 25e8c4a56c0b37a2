"""Workers that wait are woken for their own topics alone, and one for each job: on every store."""

from __future__ import annotations

import asyncio

import pytest

from interlock.api import workers as claims
from tests.rooms.jobs.job_client import JobClient

HANG_SECONDS = 60
WORKERS = 100


@pytest.fixture(autouse=True)
def _nobody_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen here is what workers are woken for."""
    monkeypatch.setattr(claims, "_POLL_SECONDS", 3600.0)


def waiting(client: JobClient, topic: str, count: int) -> list[asyncio.Task[list[dict[str, object]]]]:
    return [asyncio.create_task(client.claim(topic, wait_seconds=60)) for _ in range(count)]


async def lined_up(client: JobClient, topic: str, count: int) -> None:
    lines = client.api.service.kernel.wakes.lines
    while lines.length(f"claims:default:{topic}") < count:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # each looks once before it waits


def looks(client: JobClient) -> float:
    return client.api.service.measures.work.looks.value()


async def leave(tasks: list[asyncio.Task[list[dict[str, object]]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_jobs_of_another_topic_wake_nobody(durable_client: JobClient) -> None:
    workers = waiting(durable_client, "free.a", WORKERS) + waiting(durable_client, "pay.*", WORKERS)
    async with asyncio.timeout(HANG_SECONDS):
        await lined_up(durable_client, "free.a", WORKERS)
        await lined_up(durable_client, "pay.*", WORKERS)
        for _ in range(20):
            await durable_client.submit("free.b")
        await asyncio.sleep(0.2)
        assert looks(durable_client) == 0
    await leave(workers)


async def test_a_job_that_its_caller_carries_out_wakes_nobody(durable_client: JobClient) -> None:
    workers = waiting(durable_client, "free.a", 3)
    async with asyncio.timeout(HANG_SECONDS):
        await lined_up(durable_client, "free.a", 3)
        await durable_client.submit("free.a", executor="caller")
        await asyncio.sleep(0.2)
        assert looks(durable_client) == 0
        assert not any(worker.done() for worker in workers)
    await leave(workers)


async def test_one_job_wakes_a_few_however_many_wait(durable_client: JobClient) -> None:
    workers = waiting(durable_client, "free.*", WORKERS)
    async with asyncio.timeout(HANG_SECONDS):
        await lined_up(durable_client, "free.*", WORKERS)
        job = await durable_client.submit("free.a")
        (done,), _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        assert [each["id"] for each in done.result()] == [job]
        await asyncio.sleep(0.2)
        assert looks(durable_client) <= 3
    await leave(workers)


async def test_every_job_of_a_burst_finds_a_worker(durable_client: JobClient) -> None:
    workers = waiting(durable_client, "free.a", 40)
    async with asyncio.timeout(HANG_SECONDS):
        await lined_up(durable_client, "free.a", 40)
        jobs = await asyncio.gather(*(durable_client.submit("free.a") for _ in range(40)))
        claimed = [each["id"] for found in await asyncio.gather(*workers) for each in found]
    assert sorted(map(str, claimed)) == sorted(jobs)
