"""Slots are leased: kept by renewing, freed once, and never leaked."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.admission.admission_client import Hall


async def test_a_run_holds_its_slot_for_its_ttl_and_renewing_starts_it_again(hall: Hall) -> None:
    run = await hall.start(ttl_seconds=30)
    assert run["slot_expires_at"] == "2030-01-01T00:00:30Z"
    hall.stage.clock.advance(20)
    renewed = (await hall.end(run, "renew")).document
    assert (renewed["state"], renewed["slot_expires_at"]) == ("running", "2030-01-01T00:00:50Z")


@pytest.mark.parametrize(
    ("verb", "state"), [("complete", "succeeded"), ("fail", "failed"), ("cancel", "cancelled")]
)
async def test_ending_a_run_frees_its_slot_once(hall: Hall, verb: str, state: str) -> None:
    await hall.limit(2)
    run, _ = await hall.start(), await hall.start()
    first, second = await hall.end(run, verb), await hall.end(run, verb)
    assert (first.status, first.document["state"]) == (200, state)
    assert second.document == first.document
    assert await hall.counts() == (1, 1)
    assert (await hall.stage.events(run["run_id"])) == ["run.started", f"run.{state}"]
    assert (await hall.stage.audit(run["run_id"])) == [("run_start", "done"), (f"run_{verb}", "done")]


async def test_ending_at_once_from_many_sides_frees_one_slot(hall: Hall) -> None:
    run, _ = await hall.start(), await hall.start()
    verbs = ["complete", "fail", "cancel"] * 5
    seen = await asyncio.gather(*(hall.end(run, verb) for verb in verbs))
    assert {each.status for each in seen} == {200, 409}
    assert {each.document["code"] for each in seen if each.status == 409} == {"not_actionable"}
    assert await hall.counts() == (1, 1)


async def test_a_run_that_ended_otherwise_says_so(hall: Hall) -> None:
    run = await hall.start()
    await hall.end(run, "cancel", reason="stop")
    late = await hall.end(run)
    assert (late.status, late.word, late.document["state"]) == (409, "not_actionable", "cancelled")
    assert "cancelled" in late.document["detail"]


async def test_a_run_that_stopped_renewing_has_lost_its_slot_before_any_sweep(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start(ttl_seconds=10)
    hall.stage.clock.advance(10)
    for verb in ("renew", "complete", "fail", "cancel"):
        late = await hall.end(run, verb)
        assert (late.status, late.word, late.document["state"]) == (409, "fence_stale", "lost")
    other = await hall.start()
    assert other["fence"] > run["fence"]
    assert (await hall.stage.get(f"workflow-runs/{run['run_id']}"))["state"] == "lost"
    assert (await hall.end(run)).word == "fence_stale"
    assert await hall.counts() == (1, 1)


async def test_a_renewal_in_time_keeps_the_slot_from_whoever_would_take_it(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start(ttl_seconds=10)
    hall.stage.clock.advance(9.9)
    renewal, other, reclaimed = await asyncio.gather(hall.end(run, "renew"), hall.ask(), hall.reclaim())
    assert (renewal.status, other.status, reclaimed) == (200, 429, 0)
    hall.stage.clock.advance(9.9)
    assert (await hall.end(run)).status == 200


async def test_a_late_renewal_beside_a_start_gives_the_slot_to_one_of_them(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start(ttl_seconds=10)
    hall.stage.clock.advance(10)
    renewal, other = await asyncio.gather(hall.end(run, "renew"), hall.ask())
    assert (renewal.word, other.status) == ("fence_stale", 201)
    assert await hall.counts() == (1, 1)


async def test_another_runs_fence_is_stale(hall: Hall) -> None:
    first, second = await hall.start(), await hall.start()
    late = await hall.stage.call(
        "POST", f"workflow-runs/{first['run_id']}/complete", hall.bot, {"fence": second["fence"]}
    )
    assert (late.status, late.word) == (409, "fence_stale")
    assert (late.document["state"], "fence" in late.document) == ("running", False)
    assert await hall.counts() == (2, 2)


async def test_an_operator_cancels_without_a_fence_and_nobody_else_does(hall: Hall) -> None:
    run = await hall.start()
    path = f"workflow-runs/{run['run_id']}/cancel"
    assert (await hall.stage.call("POST", path, hall.bot, {})).word == "forbidden"
    assert (await hall.stage.call("POST", path, hall.stage.admin, {})).document["state"] == "cancelled"
    assert await hall.counts() == (0, 0)


async def test_fences_only_grow(hall: Hall) -> None:
    fences: list[int] = []
    for _ in range(4):
        run = await hall.start(ttl_seconds=1)
        fences.append(run["fence"])
        hall.stage.clock.advance(2)
    assert fences == sorted(set(fences))


async def test_more_lost_runs_than_one_pass_takes_are_all_taken_back(hall: Hall) -> None:
    await hall.limit(1000)
    await asyncio.gather(*(hall.start(f"w{n % 7}", ttl_seconds=5) for n in range(250)))
    await hall.limit(10)
    hall.stage.clock.advance(6)
    assert await hall.reclaim() == 250
    assert await hall.counts() == (0, 0)
    for n in range(7):
        assert (await hall.gate(f"w{n}")).active == 0


async def test_starts_alone_take_everything_back_even_while_they_are_refused(hall: Hall) -> None:
    await hall.limit(1000)
    await asyncio.gather(*(hall.start(f"w{n % 7}", ttl_seconds=5) for n in range(250)))
    await hall.limit(1)
    hall.stage.clock.advance(6)
    statuses = [(await hall.ask()).status for _ in range(4)]
    assert statuses.index(201) <= 2
    assert await hall.counts() == (1, 1)


async def test_a_lost_run_is_told_and_recorded(hall: Hall) -> None:
    run = await hall.start(ttl_seconds=5)
    hall.stage.clock.advance(5)
    await hall.reclaim()
    assert (await hall.stage.events(run["run_id"]))[-1] == "run.lost"
    assert (await hall.stage.audit(run["run_id"]))[-1] == ("run_lose", "done")


async def test_the_same_key_is_one_run_and_one_slot(hall: Hall) -> None:
    seen = await asyncio.gather(*(hall.ask(key="k") for _ in range(20)))
    assert {each.status for each in seen} == {201}
    assert len({each.body for each in seen}) == 1
    assert await hall.counts() == (1, 1)


async def test_a_429_keeps_nothing_under_its_key(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    assert (await hall.ask(key="k")).status == 429
    await hall.end(run)
    admitted = await hall.ask(key="k")
    assert admitted.status == 201
    assert "idempotency-replayed" not in admitted.headers


async def test_a_429_creates_nothing(hall: Hall) -> None:
    await hall.limit(0)
    before = await hall.stage.get("audit")
    for _ in range(3):
        await hall.ask()
    assert (await hall.stage.get("workflow-runs"))["items"] == []
    assert await hall.stage.get("audit") == before
    assert await hall.counts() == (0, 0)
