"""More than a server may hold: refused at once, with a time to come back; memory stays bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.crash.conftest import Start
from tests.crash.test_locked_file import locked
from tests.harness.flood import Flood, resident_mb
from tests.harness.load import fire, get, post, tally
from tests.harness.server import InterlockServer, Key
from tests.harness.soak import dose

HANG_SECONDS = 120
QUEUE = 16
GROWTH_MB_MAX = 150
FLOOD_SECONDS = dose(4)
Keys = Callable[[str], dict[str, Key]]


async def test_a_flood_is_refused_at_once_and_costs_no_memory(
    sqlite_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, sqlite_url)
    server = await asyncio.to_thread(
        start,
        sqlite_url,
        INTERLOCK_QUEUE_MAX=str(QUEUE),
        INTERLOCK_ACQUIRE_SECONDS="30",
        INTERLOCK_BATCH_MAX="8",
    )
    headers = keys["bot"].headers
    heavy = post("/api/v1/jobs", {"topic": "read", "payload": {"blob": "x" * 50_000}}, headers=headers)
    await fire(server.url, [heavy])
    before = resident_mb(server)

    with locked(sqlite_url):
        flood = asyncio.create_task(
            fire(server.url, [heavy] * 600, connections=100, timeout_seconds=HANG_SECONDS)
        )
        await refused(server, 400)
        during = resident_mb(server)
        healthy, read = await fire(server.url, [get("/healthz"), get("/api/v1/jobs", headers=headers)])

    answers = await flood
    counted = tally(answers)
    assert set(counted) == {(201, ""), (503, "overloaded")}
    assert 1 <= counted[201, ""] <= 500
    for answer in answers:
        if answer.status == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["retry_after_ms"] >= 1
    assert (healthy.status, read.status) == (200, 200)
    assert during - before < GROWTH_MB_MAX
    after = await fire(
        server.url,
        [post("/api/v1/jobs", {"topic": "read", "payload": {}}, headers=headers)] * 20,
        connections=4,
    )
    assert tally(after) == {(201, ""): 20}


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each store that outlives a process."""
    return request.getfixturevalue(f"{request.param}_url")


async def test_callers_that_never_rest_cost_no_memory_and_are_told_when_to_come_back(
    store_url: str, start: Start, keys_in: Keys
) -> None:
    keys = await asyncio.to_thread(keys_in, store_url)
    server = await asyncio.to_thread(start, store_url, INTERLOCK_QUEUE_MAX=str(QUEUE))
    job = {"topic": "read", "payload": {"blob": "x" * 50_000}}
    flood = Flood(server, post("/api/v1/jobs", job, headers=keys["bot"].headers), connections=10 * QUEUE)

    await flood.pour(FLOOD_SECONDS)

    assert set(flood.codes) == {(201, ""), (503, "overloaded")}
    assert len(flood.refused) > 10 * QUEUE  # It was a flood, however fast the store is.
    assert not flood.unhelpful
    assert max(flood.resident) - flood.resident[0] < GROWTH_MB_MAX
    (after,) = await fire(
        server.url, [post("/api/v1/jobs", {**job, "payload": {}}, headers=keys["bot"].headers)]
    )
    assert after.status == 201


async def refused(server: InterlockServer, count: int) -> None:
    """Return once this many calls were refused for a full queue."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            (metrics,) = await fire(server.url, [get("/metrics")])
            lines = metrics.body.decode().splitlines()
            found = [line for line in lines if line.startswith("interlock_overloaded_total ")]
            if found and float(found[0].split()[1]) >= count:
                return
            await asyncio.sleep(0.05)
