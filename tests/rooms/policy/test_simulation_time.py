"""A simulation answers for every job within its time, or for none; and it holds nobody else up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest

from interlock.api import policy
from interlock.rooms.jobs.model import Job
from interlock.rooms.jobs.queries import list_jobs
from interlock.rooms.jobs.simulation import Simulated, simulate
from interlock.rooms.policy.parser import parse_policy
from interlock.rooms.policy.refusals import SimulationTooLong
from tests.harness.in_process_api import ASK, InProcessApi

CANDIDATE = parse_policy("version: v1\ndefault: allow\nrules: []\n")


async def jobs_of(api: InProcessApi, count: int) -> list[Job]:
    await api.policy(ASK)
    bot = await api.agent()
    for _ in range(count):
        await api.submit(bot)
    page = await list_jobs(
        api.service.store, "default", state=None, topic=None, now=api.clock.now, before=None, limit=100
    )
    return page.items


async def simulate_with(api: InProcessApi, jobs: list[Job], clock: Callable[[], float]) -> Simulated:
    async def each() -> AsyncIterator[Job]:
        for job in jobs:
            yield job

    return await simulate(CANDIDATE, each(), api.service.store, last=len(jobs), clock=clock)


async def test_a_simulation_that_outlasts_its_time_says_nothing_of_any_job(api: InProcessApi) -> None:
    jobs = await jobs_of(api, 10)
    ticks = itertools.count()
    with pytest.raises(SimulationTooLong, match="2 of 10 jobs when its 5 s were over"):
        await simulate_with(api, jobs, lambda: float(next(ticks)))


async def test_a_simulation_within_its_time_answers_for_every_job(api: InProcessApi) -> None:
    jobs = await jobs_of(api, 10)
    found = await simulate_with(api, jobs, lambda: 0.0)
    assert (found.examined, len(found.changes)) == (10, 10)


async def test_others_are_served_while_a_simulation_runs(api: InProcessApi) -> None:
    jobs = await jobs_of(api, 10)
    turns: list[str] = []

    async def other() -> None:
        for _ in range(5):
            turns.append("other")
            await asyncio.sleep(0)

    async def run() -> None:
        await simulate_with(api, jobs, lambda: 0.0)
        turns.append("simulated")

    await asyncio.gather(run(), other())
    assert turns.index("simulated") == 5


async def test_over_http_it_is_503_and_retryable(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    await jobs_of(api, 3)
    hours = itertools.count(0, 3600)
    monkeypatch.setattr(policy, "time", SimpleNamespace(process_time=lambda: next(hours)))
    body = {"policy": {"version": "v1", "default": "allow", "rules": []}, "last": 100}
    seen = await api.call("POST", "policy/simulate", api.admin, body)
    assert (seen.status, seen.word) == (503, "policy_unavailable")
    assert int(seen.headers["retry-after"]) >= 1
