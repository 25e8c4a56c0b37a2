"""A worker's free slots are filled, however the ends of its jobs and its claims fall together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import AsyncInterlock, AsyncWork, Worker

HANG_SECONDS = 60


class Aligned:
    """A client whose first job ends in the very moment in which the claim of the second is answered."""

    def __init__(self, client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch) -> None:
        self._claim, self._complete = client.claim_jobs, client.complete_job
        self._completed, self._may_end = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(client, "claim_jobs", self.claim_jobs)
        monkeypatch.setattr(client, "complete_job", self.complete)

    async def claim_jobs(self, *topics: Any, **options: Any) -> Any:
        found = await self._claim(*topics, **options)
        if any(job.topic == "second" for job in found):
            await self._completed.wait()
            self._may_end.set()
            await asyncio.sleep(0)  # the first job ends now; that it did is told in the loop's next turn
        return found

    async def complete(self, *job: Any, **options: Any) -> Any:
        done = await self._complete(*job, **options)
        self._completed.set()
        await self._may_end.wait()
        return done


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncInterlock]:
    opened = AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db")
    await opened.apply_policy("version: v1\ndefault: allow\n")
    yield opened
    await opened.close()


async def test_a_slot_that_is_freed_while_the_last_one_is_filled_is_used(
    client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Aligned(client, monkeypatch)
    worker = Worker(client, concurrency=2, jobs_max=3)
    third_runs = asyncio.Event()

    @worker.handler("first")
    async def first(work: AsyncWork) -> None:
        await client.submit("second", {})

    @worker.handler("second")
    async def second(work: AsyncWork) -> None:
        await client.submit("third", {})
        await third_runs.wait()

    @worker.handler("third")
    async def third(work: AsyncWork) -> None:
        third_runs.set()

    await client.submit("first", {})
    async with asyncio.timeout(HANG_SECONDS):
        await worker.serve()
