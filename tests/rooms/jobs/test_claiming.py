"""Who gets which job next."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.jobs.job_client import Shift


async def test_a_claim_hands_out_the_job_with_fence_attempt_lease_and_permit(shift: Shift) -> None:
    job_id = await shift.approved("pay.a")

    job = await shift.take("pay.a", lease_seconds=40)

    assert (job["id"], job["state"], job["fence"], job["attempt"]) == (job_id, "RUNNING", 1, 1)
    assert (job["leased_by"], job["lease_expires_at"]) == ("worker", "2030-01-01T00:00:40Z")
    assert job["permit"].count(".") == 2
    assert (await shift.stage.events(job_id))[-1] == "job.claimed"
    assert (await shift.stage.audit(job_id))[-1] == ("claim", "done")


async def test_a_job_is_handed_out_once(shift: Shift) -> None:
    await shift.submit()
    answers = await asyncio.gather(*(shift.claim(by=by) for by in (shift.worker, shift.other) * 10))
    assert sorted(len(jobs) for jobs in answers) == [0] * 19 + [1]


async def test_nothing_to_do_is_an_empty_answer_that_is_not_kept(shift: Shift) -> None:
    first = await shift.claim_seen("free.a", key="same")
    await shift.submit()
    second = await shift.claim_seen("free.a", key="same")
    third = await shift.claim_seen("free.a", key="same")

    assert first.document == {"jobs": []}
    assert len(second.document["jobs"]) == 1
    assert third.body == second.body
    assert third.headers["idempotency-replayed"] == "true"


async def test_higher_priorities_go_first_and_within_one_whoever_waited_longest(shift: Shift) -> None:
    made: dict[str, str] = {}
    for name, topic, priority in (
        ("low", "free.a", "low"),
        ("old", "free.b", "normal"),
        ("new", "free.a", "normal"),
        ("urgent", "free.b", "critical"),
        ("high", "free.a", "high"),
    ):
        made[await shift.submit(topic, priority=priority)] = name
        shift.stage.clock.advance(1)

    jobs = await shift.claim("free.a", "free.b", max=10)

    assert [made[job["id"]] for job in jobs] == ["urgent", "high", "old", "new", "low"]


async def test_a_job_that_is_tried_again_goes_behind_those_that_became_ready_before(shift: Shift) -> None:
    first = await shift.submit()
    held = await shift.take()
    await shift.call("release", first, held["fence"])
    held = await shift.take()
    await shift.call("fail", first, held["fence"], error="x")
    second = await shift.submit()
    shift.stage.clock.advance(5)
    assert [job["id"] for job in await shift.claim(max=2)] == [second, first]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["free.a"], {"free.a"}),
        (["free.*"], {"free.a", "free.b"}),
        (["free.**"], {"free.a", "free.b", "free.a.x"}),
        (["*.a"], {"free.a"}),
        (["free.b", "free.*.x"], {"free.b", "free.a.x"}),
        (["free.?", "free.%", "free_a"], set[str]()),
        (["free.a", "free.b", "free.c", "free.d", "free.e"], {"free.a", "free.b"}),
    ],
)
async def test_topics_are_exact_or_globs_on_dots(shift: Shift, patterns: list[str], found: set[str]) -> None:
    for topic in ("free.a", "free.b", "free.a.x"):
        await shift.submit(topic)
    assert {job["topic"] for job in await shift.claim(*patterns, max=10)} == found


async def test_a_topic_pattern_that_matches_nothing_ever_is_refused(shift: Shift) -> None:
    seen = await shift.claim_seen("free..a")
    assert (seen.status, seen.document["errors"][0]["path"]) == (400, "/topics/0")


async def test_old_work_of_other_topics_hides_nothing(shift: Shift) -> None:
    for n in range(60):
        await shift.submit(f"free.other{n}", priority="critical")
    wanted = await shift.submit("free.wanted.now", priority="low")
    assert [job["id"] for job in await shift.claim("free.wanted.*")] == [wanted]


async def test_only_a_worker_may_claim(shift: Shift) -> None:
    assert (await shift.claim_seen(by=shift.bot)).word == "forbidden"
    assert (await shift.claim_seen(by=shift.ada)).word == "forbidden"


async def test_another_tenants_work_is_not_there(shift: Shift) -> None:
    await shift.submit()
    stranger = await shift.stage.key("stranger", "worker", "work", tenant="elsewhere")
    assert await shift.claim(by=stranger) == []


async def test_a_job_past_its_time_to_begin_is_not_handed_out(shift: Shift) -> None:
    job = await shift.submit(expires_in="30s")
    shift.stage.clock.advance(31)
    assert await shift.claim() == []
    assert (await shift.stage.job(job))["state"] == "EXPIRED"


async def test_a_waiting_claim_gets_work_that_arrives_meanwhile(shift: Shift) -> None:
    waiting = asyncio.create_task(shift.claim("free.*", wait_seconds=30))
    await asyncio.sleep(0.05)
    job = await shift.submit()
    # Far less than the slow poll would need on a busy machine; the wake-up brings it.
    jobs = await asyncio.wait_for(waiting, 20)
    assert [found["id"] for found in jobs] == [job]


async def test_a_stopping_server_lets_its_waiting_claims_go(shift: Shift) -> None:
    waiting = asyncio.create_task(shift.claim("free.*", wait_seconds=60))
    await asyncio.sleep(0.05)
    shift.stage.service.stop_waiting()
    assert await asyncio.wait_for(waiting, 20) == []


async def test_a_named_job_is_taken_by_one_caller_and_the_others_learn_by_whom(shift: Shift) -> None:
    job = await shift.submit()
    calls = [
        shift.stage.call("POST", f"jobs/{job}/claim", by, {}) for by in (shift.bot, shift.worker, shift.other)
    ]
    answers = await asyncio.gather(*calls)

    assert sorted(seen.status for seen in answers) == [200, 409, 409]
    winner = next(seen for seen in answers if seen.status == 200)
    loser = next(seen for seen in answers if seen.status == 409)
    assert loser.document["holder"] == winner.document["leased_by"]
    assert loser.document["state"] == "RUNNING"


async def test_a_submitter_takes_its_own_job_by_name_and_no_other(shift: Shift) -> None:
    mine = await shift.submit()
    stranger = await shift.stage.agent("stranger")
    assert (await shift.stage.call("POST", f"jobs/{mine}/claim", stranger, {})).word == "forbidden"
    taken = await shift.stage.call("POST", f"jobs/{mine}/claim", shift.bot, {})
    assert taken.status == 200
    done = await shift.call("complete", mine, taken.document["fence"], by=shift.bot, result=1)
    assert (done.status, done.document["state"]) == (200, "SUCCEEDED")


async def test_a_named_job_that_waits_for_people_cannot_be_taken(shift: Shift) -> None:
    job = await shift.submit("pay.a")
    seen = await shift.stage.call("POST", f"jobs/{job}/claim", shift.worker, {})
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "APPROVAL")
