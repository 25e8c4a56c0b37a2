"""What starts came to: stats over a window, and metrics, 429 and 503 apart."""

from __future__ import annotations

from typing import Any

import apsw

from interlock.kernel.refusal import StoreUnavailable
from interlock.rooms.admission.model import Tallied
from interlock.service.admission_stats import AdmissionStats
from interlock.service.metrics import SERIES_MAX, Registry
from tests.harness.in_process_api import Seen
from tests.rooms.admission.admission_client import AdmissionClient


async def test_stats_and_metrics_count_each_outcome_by_tenant_and_workflow(client: AdmissionClient) -> None:
    await client.limit(1)
    await client.start("a")
    await client.ask("a")
    await client.ask("b")
    kernel: Any = client.api.service.kernel
    run = kernel.run

    async def broken(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("gone")

    kernel.run = broken
    await client.ask("b")
    kernel.run = run

    stats = await client.api.get("admission/stats?window=10m")
    assert (stats["admitted"], stats["full_429"], stats["unavailable_503"]) == (1, 2, 1)
    assert stats["workflows"] == [
        {"workflow": "a", "admitted": 1, "full_429": 1, "unavailable_503": 0},
        {"workflow": "b", "admitted": 0, "full_429": 1, "unavailable_503": 1},
    ]
    line = 'interlock_admission_total{{tenant="default",workflow="{}",outcome="{}"}}'
    assert await client.api.metric(line.format("a", "admitted")) == 1
    assert await client.api.metric(line.format("a", "full")) == 1
    assert await client.api.metric(line.format("b", "unavailable")) == 1


async def test_a_repeat_admits_nothing_and_a_rerun_does(client: AdmissionClient) -> None:
    for _ in range(3):
        assert (await client.ask("a", key="k")).status == 201
    over = await run_that_is_over(client)
    assert (await rerun(client, over)).status == 201
    await client.limit(1)
    assert (await rerun(client, over)).status == 429

    told = (await client.api.get("admission/stats"))["workflows"]

    counted = {each["workflow"]: (each["admitted"], each["full_429"]) for each in told}
    assert counted == {"a": (1, 0), "b": (2, 1)}


async def test_a_rerun_whose_gate_is_locked_could_not_be_evaluated(
    file_client: AdmissionClient, sqlite_url: str
) -> None:
    over = await run_that_is_over(file_client)
    holder = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
    holder.execute("BEGIN IMMEDIATE")

    seen = await rerun(file_client, over)

    holder.execute("ROLLBACK")
    assert (seen.status, seen.word) == (503, "admission_unavailable")
    assert (await file_client.api.get("admission/stats"))["unavailable_503"] == 1


async def run_that_is_over(client: AdmissionClient) -> str:
    """The id of a cancelled run of `b`."""
    await client.api.call("PUT", "workflows/b", client.api.admin, {"steps": [{"id": "one", "topic": "x"}]})
    run = await client.start("b")
    assert (await client.end(run, "cancel")).status == 200
    return run["run_id"]


async def rerun(client: AdmissionClient, run_id: str) -> Seen:
    return await client.api.call("POST", f"workflow-runs/{run_id}/rerun", client.bot, {"from_step": "one"})


async def test_setting_a_limit_tells_how_many_runs_it_counts_now(client: AdmissionClient) -> None:
    await client.start("a")
    for scope in ("tenant", "a"):
        limited = await client.api.call(
            "PUT", f"limits/{scope}", client.api.admin, {"max_concurrent_runs": 5}
        )
        assert (limited.document["scope"], limited.document["active"]) == (scope, 1)


async def test_another_tenants_starts_are_not_shown(client: AdmissionClient) -> None:
    other = await client.api.agent("bot", tenant="other")
    await client.api.call("POST", "workflows/w/runs", other, {})
    assert (await client.api.get("admission/stats"))["workflows"] == []


class Clock:
    def __init__(self) -> None:
        self.now = 100_000.0

    def __call__(self) -> float:
        return self.now


def held(stats: AdmissionStats, tenant: str) -> list[Tallied]:
    return [row for tally in stats.held(tenant) for row in tally.rows]


def test_metrics_lump_names_without_end_together_and_stored_counts_do_not_and_429_is_never_503() -> None:
    registry = Registry()
    stats = AdmissionStats(registry, Clock())
    for n in range(5000):
        stats.count("t", f"w{n}", "full")
        stats.count("t", f"w{n}", "unavailable")
    text = [line for line in registry.exposition().splitlines() if line.startswith("interlock_admission")]
    assert len(text) < SERIES_MAX
    assert 'tenant="other",workflow="other",outcome="full"} 4850' in " ".join(text)
    assert 'tenant="other",workflow="other",outcome="unavailable"} 4850' in " ".join(text)
    counted = held(stats, "t")
    assert {row.workflow for row in counted} == {f"w{n}" for n in range(5000)}
    assert {(row.full, row.unavailable) for row in counted} == {(1, 1)}


def test_a_name_stays_in_its_part_of_a_tally_however_many_come_after_it() -> None:
    stats = AdmissionStats(Registry(), Clock())

    def parts() -> dict[str, str]:
        return {row.workflow: tally.id for tally in stats.held("t") for row in tally.rows}

    for n in range(600):
        stats.count("t", f"w{n}", "full")
    before = parts()
    for n in reversed(range(1200)):
        stats.count("t", f"w{n}", "full")
    assert len(set(before.values())) == 3
    assert before.items() <= parts().items()


def test_memory_is_bounded_in_a_long_outage_and_what_is_dropped_is_told() -> None:
    clock, registry = Clock(), Registry()
    stats = AdmissionStats(registry, clock)
    for n in range(150_000):
        stats.count("t", f"w{n}", "unavailable")
        clock.now += 0.01
    kept = held(stats, "t")
    assert len(kept) <= 100_000
    assert kept[-1].workflow == "w149999"
    assert f"interlock_admission_counts_dropped_total {150_000 - len(kept)}" in registry.exposition()


def test_what_is_stored_is_kept_here_no_longer_than_its_seconds() -> None:
    clock = Clock()
    stats = AdmissionStats(Registry(), clock)
    stats.count("t", "w", "full")
    counted = stats.unstored()
    stats.count("t", "w", "full")
    stats.stored(counted[0])
    clock.now += 60
    assert held(stats, "t") == [Tallied(workflow="w", full=2)]

    stats.stored(stats.unstored()[0])

    assert held(stats, "t") == []
    assert not stats.has_news.is_set()
