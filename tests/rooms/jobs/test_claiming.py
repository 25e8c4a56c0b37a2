"""Who gets which job next."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.jobs.job_client import JobClient


async def test_a_claim_hands_out_the_job_with_fence_attempt_lease_and_permit(client: JobClient) -> None:
    job_id = await client.approved("pay.a")

    job = await client.take("pay.a", lease_seconds=40)

    assert (job["id"], job["state"], job["fence"], job["attempt"]) == (job_id, "RUNNING", 1, 1)
    assert (job["leased_by"], job["lease_expires_at"]) == ("worker", "2030-01-01T00:00:40Z")
    assert job["permit"].count(".") == 2
    assert (await client.api.events(job_id))[-1] == "job.claimed"
    assert (await client.api.audit(job_id))[-1] == ("claim", "done")


async def test_a_job_is_handed_out_once(client: JobClient) -> None:
    await client.submit()
    answers = await asyncio.gather(*(client.claim(by=by) for by in (client.worker, client.other) * 10))
    assert sorted(len(jobs) for jobs in answers) == [0] * 19 + [1]


async def test_nothing_to_do_is_an_empty_answer_that_is_not_kept(client: JobClient) -> None:
    first = await client.claim_seen("free.a", key="same")
    await client.submit()
    second = await client.claim_seen("free.a", key="same")
    third = await client.claim_seen("free.a", key="same")

    assert first.document == {"jobs": []}
    assert len(second.document["jobs"]) == 1
    assert third.body == second.body
    assert third.headers["idempotency-replayed"] == "true"


async def test_higher_priorities_go_first_and_within_one_whoever_waited_longest(client: JobClient) -> None:
    made: dict[str, str] = {}
    for name, topic, priority in (
        ("low", "free.a", "low"),
        ("old", "free.b", "normal"),
        ("new", "free.a", "normal"),
        ("urgent", "free.b", "critical"),
        ("high", "free.a", "high"),
    ):
        made[await client.submit(topic, priority=priority)] = name
        client.api.clock.advance(1)

    jobs = await client.claim("free.a", "free.b", max=10)

    assert [made[job["id"]] for job in jobs] == ["urgent", "high", "old", "new", "low"]


async def test_a_job_that_is_tried_again_goes_behind_those_that_became_ready_before(
    client: JobClient,
) -> None:
    first = await client.submit()
    held = await client.take()
    await client.call("release", first, held["fence"])
    held = await client.take()
    await client.call("fail", first, held["fence"], error="x")
    second = await client.submit()
    client.api.clock.advance(5)
    assert [job["id"] for job in await client.claim(max=2)] == [second, first]


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
async def test_topics_are_exact_or_globs_on_dots(
    client: JobClient, patterns: list[str], found: set[str]
) -> None:
    for topic in ("free.a", "free.b", "free.a.x"):
        await client.submit(topic)
    assert {job["topic"] for job in await client.claim(*patterns, max=10)} == found


async def test_a_topic_pattern_that_matches_nothing_ever_is_refused(client: JobClient) -> None:
    seen = await client.claim_seen("free..a")
    assert (seen.status, seen.document["errors"][0]["path"]) == (400, "/topics/0")


async def test_old_work_of_other_topics_hides_nothing(client: JobClient) -> None:
    for n in range(60):
        await client.submit(f"free.other{n}", priority="critical")
    wanted = await client.submit("free.wanted.now", priority="low")
    assert [job["id"] for job in await client.claim("free.wanted.*")] == [wanted]


async def test_only_a_worker_may_claim(client: JobClient) -> None:
    assert (await client.claim_seen(by=client.bot)).word == "forbidden"
    assert (await client.claim_seen(by=client.ada)).word == "forbidden"


async def test_another_tenants_work_is_not_there(client: JobClient) -> None:
    await client.submit()
    stranger = await client.api.key("stranger", "worker", "work", tenant="elsewhere")
    assert await client.claim(by=stranger) == []


async def test_a_job_past_its_time_to_begin_is_not_handed_out(client: JobClient) -> None:
    job = await client.submit(expires_in="30s")
    client.api.clock.advance(31)
    assert await client.claim() == []
    assert (await client.api.job(job))["state"] == "EXPIRED"


async def test_a_waiting_claim_gets_work_that_arrives_meanwhile(client: JobClient) -> None:
    waiting = asyncio.create_task(client.claim("free.*", wait_seconds=30))
    await asyncio.sleep(0.05)
    job = await client.submit()
    # Far less than the slow poll would need on a busy machine; the wake-up brings it.
    jobs = await asyncio.wait_for(waiting, 20)
    assert [found["id"] for found in jobs] == [job]


async def test_a_stopping_server_lets_its_waiting_claims_go(client: JobClient) -> None:
    waiting = asyncio.create_task(client.claim("free.*", wait_seconds=60))
    await asyncio.sleep(0.05)
    client.api.service.stop_waiting()
    assert await asyncio.wait_for(waiting, 20) == []


async def test_a_named_job_is_taken_by_one_caller_and_the_others_learn_by_whom(client: JobClient) -> None:
    job = await client.submit()
    calls = [
        client.api.call("POST", f"jobs/{job}/claim", by, {})
        for by in (client.bot, client.worker, client.other)
    ]
    answers = await asyncio.gather(*calls)

    assert sorted(seen.status for seen in answers) == [200, 409, 409]
    winner = next(seen for seen in answers if seen.status == 200)
    loser = next(seen for seen in answers if seen.status == 409)
    assert loser.document["holder"] == winner.document["leased_by"]
    assert loser.document["state"] == "RUNNING"


async def test_a_submitter_takes_its_own_job_by_name_and_no_other(client: JobClient) -> None:
    mine = await client.submit()
    stranger = await client.api.agent("stranger")
    assert (await client.api.call("POST", f"jobs/{mine}/claim", stranger, {})).word == "forbidden"
    taken = await client.api.call("POST", f"jobs/{mine}/claim", client.bot, {})
    assert taken.status == 200
    done = await client.call("complete", mine, taken.document["fence"], by=client.bot, result=1)
    assert (done.status, done.document["state"]) == (200, "SUCCEEDED")


async def test_a_named_job_that_waits_for_people_cannot_be_taken(client: JobClient) -> None:
    job = await client.submit("pay.a")
    seen = await client.api.call("POST", f"jobs/{job}/claim", client.worker, {})
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "APPROVAL")
