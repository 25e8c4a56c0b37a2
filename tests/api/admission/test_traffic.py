"""How starts ended over time: by workflow and by topic, the same before and after it was rolled up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from interlock.kernel.ids import TellTime
from interlock.kernel.refusal import OutcomeUnknown
from interlock.rooms.admission.model import Tallied, Tally
from interlock.rooms.admission.tallies import KEPT, ForgetTallies, KeepTally
from interlock.rooms.admission.traffic import ForgetTraffic, RollUpTallies
from interlock.store.urls import store_for
from tests.harness.in_process_api import InProcessApi, open_api

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


async def hand_in(
    api: InProcessApi, name: str, at: datetime, rows: Iterable[Tallied], tenant: str = "default"
) -> None:
    """What some other server counted then."""
    await api.service.kernel.run(KeepTally(tally=Tally(tenant=tenant, id=name, at=at, rows=tuple(rows))))


async def roll_up(api: InProcessApi) -> int:
    """Roll everything up; returns how many tallies there were."""
    rolled = 0
    while count := await api.service.kernel.run(RollUpTallies()):
        rolled += count
    return rolled


async def now_of(api: InProcessApi) -> datetime:
    return await api.service.kernel.run(TellTime())


def spelled(points: Iterable[Any]) -> dict[str, tuple[int, int, int]]:
    """Steps with something to count, by when they begin."""
    counted = {
        point["at"]: (point["admitted"], point["full_429"], point["unavailable_503"]) for point in points
    }
    return {at: counts for at, counts in counted.items() if any(counts)}


async def over_time(api: InProcessApi, query: str) -> tuple[Any, Any]:
    """The steps of the tenant, and of each workflow."""
    told = await api.get(f"admission/stats?{query}")
    return spelled(told["series"]), {row["workflow"]: spelled(row["series"]) for row in told["workflows"]}


@pytest.mark.parametrize(("window", "step"), [("6h", "10m"), ("20d", "6h")])
async def test_what_was_counted_is_told_by_step_the_same_before_and_after_it_was_rolled_up(
    durable: InProcessApi, window: str, step: str
) -> None:
    now = await now_of(durable)
    rows = (Tallied(workflow="a", admitted=3, full=2), Tallied(workflow="b", unavailable=1))
    await hand_in(durable, "one", now - 5 * HOUR, rows)
    await hand_in(durable, "two", now - 2 * MINUTE, rows[:1])
    await hand_in(durable, "three", now, rows[1:])
    before = await over_time(durable, f"window={window}&step={step}")
    sums = await durable.get(f"admission/stats?window={window}")
    assert (sums["admitted"], sums["full_429"], sums["unavailable_503"]) == (6, 4, 2)

    assert await roll_up(durable) == 2

    assert await over_time(durable, f"window={window}&step={step}") == before
    assert await durable.get(f"admission/stats?window={window}") | {"since": 0} == sums | {"since": 0}
    whole, workflows = before
    assert sum(counts[0] for counts in whole.values()) == 6
    assert {name: sum(map(sum, found.values())) for name, found in workflows.items()} == {"a": 10, "b": 2}


async def test_a_tally_that_is_handed_in_again_adds_only_what_is_new(durable: InProcessApi) -> None:
    now = await now_of(durable)
    at = now - 10 * MINUTE
    await hand_in(durable, "one", at, [Tallied(workflow="a", full=2)])
    await roll_up(durable)
    for rows in (
        [Tallied(workflow="a", full=2)],
        [Tallied(workflow="a", full=5), Tallied(workflow="b", full=1)],
    ):
        await hand_in(durable, "one", at, rows)
        told = await durable.get("admission/stats")
        await roll_up(durable)
        assert (await durable.get("admission/stats"))["full_429"] == told["full_429"]
    assert [(row["workflow"], row["full_429"]) for row in told["workflows"]] == [("a", 5), ("b", 1)]


async def test_what_a_server_was_not_told_is_stored_is_not_told_twice(api: InProcessApi) -> None:
    clock = [100_000.0]
    api.service.admission_stats._clock = lambda: clock[0]
    api.service.admission_stats.count("default", "w", "full")
    kernel: Any = api.service.kernel
    run = kernel.run

    async def stores_and_breaks(command: Any) -> Any:
        await run(command)
        raise OutcomeUnknown("nobody can say")

    kernel.run = stores_and_breaks
    with pytest.raises(OutcomeUnknown):
        await api.service.tallying.hand_in()
    kernel.run = run
    for seconds in (1, 120):
        api.clock.advance(seconds)
        clock[0] += seconds
        await roll_up(api)
        assert (await api.get("admission/stats"))["full_429"] == 1
    await api.service.tallying.hand_in()
    await roll_up(api)
    assert (await api.get("admission/stats"))["full_429"] == 1


async def test_two_servers_that_roll_up_at_once_add_every_tally_once(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as first, open_api(store_for(durable_url)) as second:
        now = await now_of(first)
        for n in range(60):
            rows = [Tallied(workflow=f"w{n % 7}", admitted=1), Tallied(workflow="all", full=1)]
            await hand_in(first, f"tally-{n}", now - 5 * MINUTE - n * timedelta(seconds=5), rows)

        async def sweep(api: InProcessApi) -> int:
            passes = [await api.service.kernel.run(RollUpTallies(most=3)) for _ in range(40)]
            return sum(passes)

        assert sum(await asyncio.gather(sweep(first), sweep(second))) == 60
        told = await first.get("admission/stats?window=6h")
        assert (told["admitted"], told["full_429"]) == (60, 60)
        assert {row["workflow"]: row["full_429"] for row in told["workflows"]}["all"] == 60


async def test_a_thousand_workflows_are_told_one_by_one_over_pages(api: InProcessApi) -> None:
    names = {f"w{n:04}" for n in range(1000)}
    for n, name in enumerate(sorted(names)):
        api.service.admission_stats.count("default", name, ("full", "unavailable")[n % 2])
    await api.service.tallying.hand_in()
    for _ in range(2):
        found: list[Any] = []
        query = "admission/stats?window=2h"
        told = await api.get(query)
        while told["next_cursor"]:
            found += told["workflows"]
            told = await api.get(f"{query}&cursor={told['next_cursor']}")
        found += told["workflows"]
        assert [row["workflow"] for row in found] == sorted(names)
        assert all(row["full_429"] + row["unavailable_503"] == 1 for row in found)
        assert (told["full_429"], told["unavailable_503"]) == (500, 500)
        api.clock.advance(120)
        await roll_up(api)


async def test_pages_with_steps_are_shorter_so_that_an_answer_is_bounded(api: InProcessApi) -> None:
    for n in range(200):
        api.service.admission_stats.count("default", f"w{n:03}", "full")
    told = await api.get("admission/stats?window=400m&step=1m")
    assert len(told["series"]) == 401
    assert len(told["workflows"]) * 401 <= 20_000
    assert told["next_cursor"] == told["workflows"][-1]["workflow"]


async def test_one_workflow_can_be_asked_for(api: InProcessApi) -> None:
    api.service.admission_stats.count("default", "a", "full")
    api.service.admission_stats.count("default", "b", "admitted")
    told = await api.get("admission/stats?name=a&step=5m")
    assert (told["full_429"], told["admitted"]) == (1, 0)
    assert [row["workflow"] for row in told["workflows"]] == ["a"]
    assert (await api.get("admission/stats?name=c"))["workflows"] == []


async def test_jobs_that_the_policy_throttled_are_told_by_topic(api: InProcessApi) -> None:
    await api.policy("{version: v1, rules: [{id: no, when: {topic: mail}, decision: throttle}]}")
    bot = await api.agent()
    for _ in range(3):
        assert (await api.propose(bot, topic="mail")).word == "policy_throttled"
    await api.service.tallying.hand_in()
    api.clock.advance(120)
    await roll_up(api)

    told = await api.get("admission/stats?by=topic&step=1m")

    assert told["policy_throttled_429"] == 3
    assert [(row["topic"], row["policy_throttled_429"]) for row in told["topics"]] == [("mail", 3)]
    assert [point["policy_throttled_429"] for point in told["topics"][0]["series"]] == [3]
    assert told["full_429"] == 0
    assert (await api.get("admission/stats"))["workflows"] == []


async def test_another_tenants_traffic_is_not_told(api: InProcessApi) -> None:
    await hand_in(api, "x", api.clock.now - 5 * MINUTE, [Tallied(workflow="w", full=1)], tenant="other")
    await roll_up(api)
    told = await api.get("admission/stats?step=1m")
    assert told["workflows"] == []
    assert spelled(told["series"]) == {}


async def test_minutes_are_kept_for_a_day_and_hours_for_a_month(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        now = await now_of(api)
        for name, age in (("new", MINUTE * 5), ("day", DAY * 2), ("month", DAY * 29), ("old", DAY * 33)):
            await hand_in(api, name, now - age, [Tallied(workflow=name, full=1)])
        await roll_up(api)
        assert await api.service.kernel.run(ForgetTraffic()) == 8
        assert await api.service.kernel.run(ForgetTraffic()) == 0

        told = await api.get("admission/stats?window=30d&step=24h")

        assert [row["workflow"] for row in told["workflows"]] == ["day", "month", "new"]
        assert told["full_429"] == 3
        assert (await api.get("admission/stats?window=24h"))["full_429"] == 1


async def test_a_tally_is_kept_for_an_hour_after_it_was_rolled_up(api: InProcessApi) -> None:
    await hand_in(api, "x", api.clock.now - DAY, [Tallied(workflow="w", full=1)])
    kernel = api.service.kernel
    assert await kernel.run(ForgetTallies()) == 0
    await roll_up(api)
    assert await kernel.run(ForgetTallies()) == 0
    api.clock.now += KEPT + timedelta(seconds=1)
    assert [await kernel.run(ForgetTallies()) for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("window=1h&step=90", "whole number of minutes"),
        ("window=1h&step=0", "whole number of minutes"),
        ("window=7d&step=30m", "whole number of hours"),
        ("window=24h&step=1m", "send at least 240"),
        ("by=actor", ""),
        ("cursor=%20", ""),
    ],
)
async def test_a_step_that_cannot_be_told_is_refused_with_one_that_can(
    api: InProcessApi, query: str, reason: str
) -> None:
    seen = await api.call("GET", f"admission/stats?{query}", api.admin)
    assert seen.status == 400
    assert reason in seen.document["errors"][0]["reason"]


async def test_a_sweep_rolls_up_and_counts_it(api: InProcessApi) -> None:
    await hand_in(api, "x", api.clock.now - 5 * MINUTE, [Tallied(workflow="w", full=1)])
    await api.service.sweeps.forget_once()
    assert await api.metric('interlock_swept_total{what="rolled_up_tallies"}') == 1
    assert await roll_up(api) == 0
