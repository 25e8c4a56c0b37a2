"""Slots are leased: kept by renewing, freed once, and never leaked."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.admission.admission_client import AdmissionClient


async def test_a_run_holds_its_slot_for_its_ttl_and_renewing_starts_it_again(client: AdmissionClient) -> None:
    run = await client.start(ttl_seconds=30)
    assert run["slot_expires_at"] == "2030-01-01T00:00:30Z"
    client.api.clock.advance(20)
    renewed = (await client.end(run, "renew")).document
    assert (renewed["state"], renewed["slot_expires_at"]) == ("running", "2030-01-01T00:00:50Z")


@pytest.mark.parametrize(
    ("verb", "state"), [("complete", "succeeded"), ("fail", "failed"), ("cancel", "cancelled")]
)
async def test_ending_a_run_frees_its_slot_once(client: AdmissionClient, verb: str, state: str) -> None:
    await client.limit(2)
    run, _ = await client.start(), await client.start()
    first, second = await client.end(run, verb), await client.end(run, verb)
    assert (first.status, first.document["state"]) == (200, state)
    assert second.document == first.document
    assert await client.counts() == (1, 1)
    assert (await client.api.events(run["run_id"])) == ["run.started", f"run.{state}"]
    assert (await client.api.audit(run["run_id"])) == [("run_start", "done"), (f"run_{verb}", "done")]


async def test_ending_at_once_from_many_sides_frees_one_slot(client: AdmissionClient) -> None:
    run, _ = await client.start(), await client.start()
    verbs = ["complete", "fail", "cancel"] * 5
    seen = await asyncio.gather(*(client.end(run, verb) for verb in verbs))
    assert {each.status for each in seen} == {200, 409}
    assert {each.document["code"] for each in seen if each.status == 409} == {"not_actionable"}
    assert await client.counts() == (1, 1)


async def test_a_run_that_ended_otherwise_says_so(client: AdmissionClient) -> None:
    run = await client.start()
    await client.end(run, "cancel", reason="stop")
    late = await client.end(run)
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "cancelled")
    assert "cancelled" in late.document["detail"]


async def test_a_run_that_stopped_renewing_has_lost_its_slot_before_any_sweep(
    client: AdmissionClient,
) -> None:
    await client.limit(1)
    run = await client.start(ttl_seconds=10)
    client.api.clock.advance(10)
    for verb in ("renew", "complete", "fail", "cancel"):
        late = await client.end(run, verb)
        assert (late.status, late.word, late.document["state"]) == (409, "fence_stale", "lost")
    other = await client.start()
    assert other["fence"] > run["fence"]
    assert (await client.api.get(f"workflow-runs/{run['run_id']}"))["state"] == "lost"
    assert (await client.end(run)).word == "fence_stale"
    assert await client.counts() == (1, 1)


async def test_a_renewal_in_time_keeps_the_slot_from_whoever_would_take_it(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start(ttl_seconds=10)
    client.api.clock.advance(9.9)
    renewal, other, reclaimed = await asyncio.gather(client.end(run, "renew"), client.ask(), client.reclaim())
    assert (renewal.status, other.status, reclaimed) == (200, 429, 0)
    client.api.clock.advance(9.9)
    assert (await client.end(run)).status == 200


async def test_a_late_renewal_beside_a_start_gives_the_slot_to_one_of_them(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start(ttl_seconds=10)
    client.api.clock.advance(10)
    renewal, other = await asyncio.gather(client.end(run, "renew"), client.ask())
    assert (renewal.word, other.status) == ("fence_stale", 201)
    assert await client.counts() == (1, 1)


async def test_another_runs_fence_is_stale(client: AdmissionClient) -> None:
    first, second = await client.start(), await client.start()
    late = await client.api.call(
        "POST", f"workflow-runs/{first['run_id']}/complete", client.bot, {"fence": second["fence"]}
    )
    assert (late.status, late.word) == (409, "fence_stale")
    assert (late.document["state"], "fence" in late.document) == ("running", False)
    assert await client.counts() == (2, 2)


async def test_an_operator_cancels_without_a_fence_and_nobody_else_does(client: AdmissionClient) -> None:
    run = await client.start()
    path = f"workflow-runs/{run['run_id']}/cancel"
    assert (await client.api.call("POST", path, client.bot, {})).word == "forbidden"
    assert (await client.api.call("POST", path, client.api.admin, {})).document["state"] == "cancelled"
    assert await client.counts() == (0, 0)


async def test_fences_only_grow(client: AdmissionClient) -> None:
    fences: list[int] = []
    for _ in range(4):
        run = await client.start(ttl_seconds=1)
        fences.append(run["fence"])
        client.api.clock.advance(2)
    assert fences == sorted(set(fences))


async def test_more_lost_runs_than_one_pass_takes_are_all_taken_back(client: AdmissionClient) -> None:
    await client.limit(1000)
    await asyncio.gather(*(client.start(f"w{n % 7}", ttl_seconds=5) for n in range(250)))
    await client.limit(10)
    client.api.clock.advance(6)
    assert await client.reclaim() == 250
    assert await client.counts() == (0, 0)
    for n in range(7):
        assert (await client.gate(f"w{n}")).active == 0


async def test_starts_alone_take_everything_back_even_while_they_are_refused(client: AdmissionClient) -> None:
    await client.limit(1000)
    await asyncio.gather(*(client.start(f"w{n % 7}", ttl_seconds=5) for n in range(250)))
    await client.limit(1)
    client.api.clock.advance(6)
    statuses = [(await client.ask()).status for _ in range(4)]
    assert statuses.index(201) <= 2
    assert await client.counts() == (1, 1)


async def test_a_lost_run_is_told_and_recorded(client: AdmissionClient) -> None:
    run = await client.start(ttl_seconds=5)
    client.api.clock.advance(5)
    await client.reclaim()
    assert (await client.api.events(run["run_id"]))[-1] == "run.lost"
    assert (await client.api.audit(run["run_id"]))[-1] == ("run_lose", "done")


async def test_the_same_key_is_one_run_and_one_slot(client: AdmissionClient) -> None:
    seen = await asyncio.gather(*(client.ask(key="k") for _ in range(20)))
    assert {each.status for each in seen} == {201}
    assert len({each.body for each in seen}) == 1
    assert await client.counts() == (1, 1)


async def test_a_429_keeps_nothing_under_its_key(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    assert (await client.ask(key="k")).status == 429
    await client.end(run)
    admitted = await client.ask(key="k")
    assert admitted.status == 201
    assert "idempotency-replayed" not in admitted.headers


async def test_a_429_creates_nothing(client: AdmissionClient) -> None:
    await client.limit(0)
    before = await client.api.get("audit")
    for _ in range(3):
        await client.ask()
    assert (await client.api.get("workflow-runs"))["items"] == []
    assert await client.api.get("audit") == before
    assert await client.counts() == (0, 0)
