"""Crowds at a gate, over two servers on PostgreSQL and one on SQLite."""

from __future__ import annotations

import asyncio
import random

import pytest

from interlock.rooms.admission.slots import LINE_MAX
from tests.harness.load import Answer, tally
from tests.harness.soak import dose
from tests.races.admission.admission_servers import AdmissionServers, Tenant, until

FULL = (429, "max_concurrent_runs")


@pytest.mark.parametrize("crowd", [10, 50, 300])
async def test_a_crowd_at_a_limit_of_two_is_two_runs_and_no_503(
    admission: AdmissionServers, crowd: int
) -> None:
    tenant = await admission.tenant(limit=2)
    answers = await admission.ask(*[admission.start(tenant)] * crowd)
    assert tally(answers) == {(201, ""): 2, FULL: crowd - 2}
    assert await admission.counts(tenant) == (2, 2)
    assert len((await admission.history(tenant)).runs) == 2


async def test_a_crowd_without_any_limit_set_before_is_ten_runs(admission: AdmissionServers) -> None:
    tenant = await admission.tenant()
    answers = await admission.ask(*[admission.start(tenant)] * 60)
    assert tally(answers) == {(201, ""): 10, FULL: 50}


async def test_one_key_over_all_servers_is_one_run_and_one_slot(admission: AdmissionServers) -> None:
    tenant = await admission.tenant(limit=5)
    answers = await admission.ask(*[admission.start(tenant, key="same")] * 60)
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert await admission.counts(tenant) == (1, 1)


async def test_ending_a_run_from_everywhere_at_once_frees_one_slot(admission: AdmissionServers) -> None:
    tenant = await admission.tenant(limit=2)
    first, _ = [answer.json() for answer in await admission.ask(*[admission.start(tenant)] * 2)]
    verbs = ["complete", "fail", "cancel"] * 20
    answers = await admission.ask(*(admission.end(tenant, first, verb) for verb in verbs))
    assert {(answer.status, answer.word) for answer in answers} == {(200, ""), (409, "not_actionable")}
    assert await admission.counts(tenant) == (1, 1)


@pytest.mark.parametrize("limits", [(2,), (5, 1, 3, 0, 6)], ids=["steady", "moving"])
async def test_never_more_than_the_limit_at_any_instant(
    admission: AdmissionServers, limits: tuple[int, ...]
) -> None:
    tenant = await admission.tenant(limit=limits[0])
    clients = [asyncio.create_task(come_and_go(admission, tenant, dose(12))) for _ in range(24)]

    async def move() -> None:
        for most in limits[1:] * dose(2):
            await asyncio.sleep(0.15)
            await admission.limit(tenant, most)
        await admission.limit(tenant, limits[-1])

    await move()
    answers = [answer for client in await asyncio.gather(*clients) for answer in client]
    assert set(tally(answers)) <= {(201, ""), FULL}, tally(answers)
    history = await admission.history(tenant)
    assert len(history.runs) == sum(answer.status == 201 for answer in answers) > 0
    assert history.overruns() == []
    assert await admission.counts(tenant) == (0, 0)


async def come_and_go(admission: AdmissionServers, tenant: Tenant, turns: int) -> list[Answer]:
    """Start, hold for a moment, complete; some wait in line and some do not."""
    answers: list[Answer] = []
    for turn in range(turns):
        (answer,) = await admission.ask(admission.start(tenant, wait_seconds=turn % 2 / 2))
        answers.append(answer)
        if answer.status == 201:
            await asyncio.sleep(random.random() * 0.02)
            (ended,) = await admission.ask(admission.end(tenant, answer.json()))
            assert ended.status == 200, ended.body
    return answers


async def test_the_line_is_served_in_arrival_order_over_all_servers(admission: AdmissionServers) -> None:
    tenant = await admission.tenant(limit=1)
    (held,) = await admission.ask(admission.start(tenant))
    waiters: list[asyncio.Task[list[Answer]]] = []
    for number in range(8):
        url = admission.urls[number % len(admission.urls)]
        request = admission.start(tenant, wait_seconds=100, input=number)
        waiters.append(asyncio.create_task(admission.ask(request, url=url)))
        await until(lambda: _is(admission.waiting(tenant), len(waiters)))
    running = held.json()
    for number, waiter in enumerate(waiters):
        (ended,) = await admission.ask(admission.end(tenant, running))
        assert ended.status == 200
        (answer,) = await asyncio.wait_for(waiter, 60)
        running = answer.json()
        assert (answer.status, running["input"]) == (201, number)
    assert (await admission.history(tenant)).overruns() == []


async def test_a_long_line_is_served_to_the_last(admission: AdmissionServers) -> None:
    tenant = await admission.tenant(limit=4)
    crowd, served = min(dose(100), LINE_MAX), 0

    async def wait_and_go() -> None:
        nonlocal served
        (answer,) = await admission.ask(admission.start(tenant, wait_seconds=100))
        assert answer.status == 201, answer.body
        (ended,) = await admission.ask(admission.end(tenant, answer.json()))
        assert ended.status == 200
        served += 1

    await asyncio.gather(*(wait_and_go() for _ in range(crowd)))
    assert served == crowd
    assert (await admission.history(tenant)).overruns() == []
    assert await admission.counts(tenant) == (0, 0)


async def test_a_client_that_hangs_up_in_line_holds_nobody_up(admission: AdmissionServers) -> None:
    tenant = await admission.tenant(limit=1)
    (held,) = await admission.ask(admission.start(tenant))
    leaver = asyncio.create_task(admission.ask(admission.start(tenant, wait_seconds=290)))
    await until(lambda: _is(admission.waiting(tenant), 1))
    stayer = asyncio.create_task(admission.ask(admission.start(tenant, wait_seconds=290)))
    await until(lambda: _is(admission.waiting(tenant), 2))
    leaver.cancel()
    await until(lambda: _is(admission.waiting(tenant), 1))
    await admission.ask(admission.end(tenant, held.json()))
    (answer,) = await asyncio.wait_for(stayer, 60)
    assert answer.status == 201
    assert len((await admission.history(tenant)).runs) == 2


async def _is(number: object, wanted: int) -> bool:
    return await number == wanted  # type: ignore[misc]
