"""What one server counted at the gate, every server tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from interlock.kernel.refusal import StoreUnavailable
from interlock.rooms.admission.model import Tallied, Tally
from interlock.rooms.admission.tallies import KeepTally
from interlock.service.admission_stats import AdmissionStats, Tallying
from interlock.service.metrics import Registry
from interlock.service.service import Service
from interlock.store.urls import store_for
from tests.harness.in_process_api import InProcessApi, open_api


async def figures(api: InProcessApi, window: str = "10m") -> tuple[int, int, int]:
    told = await api.get(f"admission/stats?window={window}")
    return told["admitted"], told["full_429"], told["unavailable_503"]


async def play(first: InProcessApi, second: InProcessApi) -> None:
    """One start that is admitted on the first server, two that find it full on the second."""
    await first.call("PUT", "limits/w", first.admin, {"max_concurrent_runs": 1})
    for api in (first, second, second):
        await api.call("POST", "workflows/w/runs", await api.agent(), {})


@pytest.fixture
async def api() -> AsyncIterator[InProcessApi]:
    """A service on an empty memory store with a virtual clock."""
    async with open_api() as opened:
        yield opened


@pytest.mark.parametrize("url", ["sqlite", "postgres"])
async def test_every_server_tells_what_all_of_them_counted(
    url: str, sqlite_url: str, request: pytest.FixtureRequest
) -> None:
    where = sqlite_url if url == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_api(store_for(where)) as first, open_api(store_for(where)) as second:
        await play(first, second)
        assert (await figures(first), await figures(second)) == ((1, 0, 0), (0, 2, 0))

        for _ in range(2):
            await first.service.tallying.hand_in()
            await second.service.tallying.hand_in()

        assert await figures(first) == await figures(second) == (1, 2, 0)
        told = (await first.get("admission/stats"))["workflows"]
        assert told == [{"workflow": "w", "admitted": 1, "full_429": 2, "unavailable_503": 0}]


async def test_counts_are_handed_in_by_themselves_and_at_the_end() -> None:
    handed: list[Tally] = []

    class Listening:
        async def run(self, command: KeepTally) -> Tally:
            handed.append(command.tally)
            return command.tally

    kernel: Any = Listening()
    stats = AdmissionStats(Registry())
    tallying = Tallying(kernel, stats)
    tallying.start()
    stats.count("t", "w", "full")
    async with asyncio.timeout(30):
        while not handed:
            await asyncio.sleep(0.01)
    stats.count("t", "w", "admitted")
    await tallying.close()

    assert (handed[0].tenant, handed[0].rows) == ("t", (Tallied(workflow="w", full=1),))
    assert sum(row.admitted for tally in handed for row in tally.rows) == 1
    assert stats.unstored() == []


async def test_what_could_not_be_handed_in_is_handed_in_later(api: InProcessApi) -> None:
    service: Service = api.service
    service.admission_stats.count("default", "w", "unavailable")
    kernel: Any = service.kernel
    run = kernel.run

    async def broken(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    kernel.run = broken
    with pytest.raises(StoreUnavailable):
        await service.tallying.hand_in()
    kernel.run = run

    unstored = service.admission_stats.unstored()
    assert [tally.rows for each in unstored for tally in each.tallies] == [
        (Tallied(workflow="w", unavailable=1),)
    ]
    await service.tallying.hand_in()
    assert service.admission_stats.unstored() == []
    assert await figures(api) == (0, 0, 1)


@pytest.mark.parametrize("unlucky", ["a", "b", "c"])
async def test_what_one_tenants_counts_fail_at_keeps_nobody_elses_from_the_store(
    api: InProcessApi, unlucky: str
) -> None:
    stats = api.service.admission_stats
    for tenant in ("a", "b", "c"):
        stats.count(tenant, "w", "unavailable")
    kernel: Any = api.service.kernel
    run = kernel.run

    async def partly_broken(command: KeepTally) -> Any:
        if command.tally.tenant == unlucky:
            raise StoreUnavailable("gone")
        return await run(command)

    kernel.run = partly_broken
    with pytest.raises(StoreUnavailable):
        await api.service.tallying.hand_in()
    kernel.run = run

    assert [each.tenant for each in stats.unstored()] == [unlucky]
    await api.service.tallying.hand_in()
    assert stats.unstored() == []


async def test_a_window_leaves_out_what_another_server_counted_before_it(
    api: InProcessApi,
) -> None:
    for hours in (0, 2):
        tally = Tally(
            tenant="default",
            id=f"srv_other.{hours}",
            at=api.clock.now - timedelta(hours=hours),
            rows=(Tallied(workflow="w", admitted=1),),
        )
        await api.service.kernel.run(KeepTally(tally=tally))
    assert await figures(api, "1h") == (1, 0, 0)
    assert await figures(api, "3h") == (2, 0, 0)
