"""Claims whose answer is lost or late: no job is left lying, and none is begun that may be somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Ambiguous, AsyncInterlock, Work, Worker
from interlock.sdk.outcomes import no_answer
from interlock.sdk.worker_jobs import Settled
from interlock.wire.jobs import HeldJob

HANG_SECONDS = 60


class Claims:
    """The claims of one client, the first of which goes wrong."""

    def __init__(self, client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real = client.claim_jobs
        self.names: list[str] = []
        monkeypatch.setattr(client, "claim_jobs", self.claim)

    async def claim(self, *topics: Any, **options: Any) -> tuple[HeldJob, ...]:
        self.names.append(options["key"])
        is_first = len(self.names) == 1
        if is_first:
            await self.before()
        jobs = await self.real(*topics, **options)
        if is_first:
            await self.after()
        return jobs

    async def before(self) -> None:
        """What goes wrong on the way there."""

    async def after(self) -> None:
        """What goes wrong on the way back."""


class Lost(Claims):
    async def after(self) -> None:
        raise Ambiguous(no_answer("the connection broke"))


class LateThere(Claims):
    async def before(self) -> None:
        await asyncio.sleep(1.2)


class LateBack(Claims):
    async def after(self) -> None:
        await asyncio.sleep(1.2)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(store=f"sqlite:///{tmp_path}/interlock.db") as opened:
        await opened.apply_policy("version: v1\ndefault: allow\n")
        yield opened


async def play(client: AsyncInterlock, lease_seconds: int) -> tuple[list[int], list[Settled]]:
    """Give a worker one job: the attempts that were begun, and how it ended."""
    begun, ends = list[int](), list[Settled]()
    worker = Worker(
        client, jobs_max=1, lease_seconds=lease_seconds, on_settled=lambda _, end: ends.append(end)
    )

    @worker.handler("a")
    def note(work: Work) -> None:
        begun.append(work.attempt)

    await client.submit("a", {})
    async with asyncio.timeout(HANG_SECONDS):
        await worker.serve()
    return begun, ends


async def test_a_claim_whose_answer_was_lost_is_repeated_and_brings_its_jobs(
    client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Lost(client, monkeypatch)
    assert await play(client, lease_seconds=600) == ([1], [Settled.SUCCEEDED])
    assert len(claims.names) == 2
    assert len(set(claims.names)) == 1


async def test_a_job_that_came_later_than_its_lease_lasts_is_not_begun(
    client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    LateBack(client, monkeypatch)
    assert await play(client, lease_seconds=1) == ([], [Settled.LOST])


async def test_a_job_that_was_taken_late_is_begun_once_that_is_sure(
    client: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    LateThere(client, monkeypatch)
    assert await play(client, lease_seconds=1) == ([1], [Settled.SUCCEEDED])
