"""The whole life of a job under workers, as the audit and the events tell it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rooms.jobs.job_client import JobClient


async def told(client: JobClient, job: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Action, actor and details of every audit entry about a job, oldest first, besides its state."""
    entries = (await client.api.get(f"audit?subject={job}&limit=200"))["items"]
    return [
        (entry["action"], entry["actor"], {k: v for k, v in entry["details"].items() if k != "not_before"})
        for entry in reversed(entries)
    ]


async def take_later(client: JobClient) -> dict[str, Any]:
    client.api.clock.advance(600)
    return await client.take()


async def test_every_attempt_and_every_end_of_one_is_told(client: JobClient) -> None:
    job = await client.submit(max_attempts=3)
    await client.call("release", job, (await client.take())["fence"])
    await client.take(lease_seconds=30)
    client.api.clock.advance(30)
    await client.api.sweep()
    again = await take_later(client)
    await client.call("fail", job, again["fence"], error="no route", retryable=True)
    last = await take_later(client)
    dead = (await client.call("fail", job, last["fence"], error="cut off", retryable=True)).document
    assert (dead["state"], dead["error"], dead["finished_at"]) == ("FAILED", "cut off", dead["updated_at"])
    retried = await client.api.call("POST", f"jobs/{job}/retry", client.bot, {"reason": "it is back"})
    assert (retried.document["finished_at"], retried.document["attempt"]) == (None, 0)
    once_more = await client.take()
    done = (await client.call("complete", job, once_more["fence"], result=1)).document
    assert (done["state"], done["error"], done["finished_at"]) == ("SUCCEEDED", None, done["updated_at"])

    assert await client.api.events(job) == [
        "job.released", "job.claimed", "job.returned", "job.claimed", "job.lease_lost", "job.claimed",
        "job.retrying", "job.claimed", "job.failed", "job.retried", "job.claimed", "job.succeeded",
    ]  # fmt: skip
    assert await told(client, job) == [
        ("submit", "bot", {"state": "PENDING"}),
        ("claim", "worker", {"state": "RUNNING", "attempt": 1}),
        ("release", "worker", {"state": "PENDING", "attempt": 1}),
        ("claim", "worker", {"state": "RUNNING", "attempt": 1}),
        ("lose", "interlock", {"state": "PENDING", "attempt": 1}),
        ("claim", "worker", {"state": "RUNNING", "attempt": 2}),
        ("fail", "worker", {"state": "PENDING", "attempt": 2}),
        ("claim", "worker", {"state": "RUNNING", "attempt": 3}),
        ("fail", "worker", {"state": "FAILED", "attempt": 3}),
        ("retry", "bot", {"state": "PENDING", "reason": "it is back"}),
        ("claim", "worker", {"state": "RUNNING", "attempt": 1}),
        ("complete", "worker", {"state": "SUCCEEDED", "attempt": 1}),
    ]


async def test_a_failure_that_says_nothing_can_be_repeated_after_one_that_did(client: JobClient) -> None:
    job = await client.submit(max_attempts=3)
    await client.call("fail", job, (await client.take())["fence"], error="no route", retryable=True)
    again = await take_later(client)
    said = {"error": None, "retryable": True}
    first = await client.call("fail", job, again["fence"], **said)
    repeated = await client.call("fail", job, again["fence"], **said)
    assert (first.status, first.document["error"]) == (200, None)
    assert (repeated.status, repeated.document) == (200, first.document)


async def test_a_lost_lease_keeps_what_went_wrong_before(client: JobClient) -> None:
    job = await client.submit(max_attempts=3)
    await client.call("fail", job, (await client.take())["fence"], error="no route", retryable=True)
    await take_later(client)
    client.api.clock.advance(600)
    await client.api.sweep()
    assert (await client.api.job(job))["error"] == "no route"


async def test_a_job_that_was_given_back_is_offered_as_if_for_the_first_time(client: JobClient) -> None:
    job = await client.submit()
    client.api.clock.advance(600)
    await client.api.sweep()
    await client.call("release", job, (await client.take())["fence"])
    client.api.clock.advance(600)
    await client.api.sweep()
    assert [action for action, _ in await client.api.audit(job)].count("replay") == 2


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("renew", {}),
        ("complete", {"result": None}),
        ("fail", {"error": None, "retryable": True}),
    ],
)
async def test_a_job_that_was_given_back_is_not_ended_under_its_old_fence(
    client: JobClient, verb: str, said: dict[str, Any]
) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    await client.call("release", job, fence)
    late = await client.call(verb, job, fence, **said)
    assert (late.status, late.word) == (409, "fence_stale")
    assert (await client.call("release", job, fence)).status == 200


async def test_the_failure_that_made_it_a_dead_letter_can_be_repeated(client: JobClient) -> None:
    job = await client.submit(max_attempts=1)
    fence = (await client.take())["fence"]
    said = {"error": "cut off", "retryable": True}
    first = await client.call("fail", job, fence, **said)
    repeated = await client.call("fail", job, fence, **said)
    assert (first.document["state"], repeated.status, repeated.document) == ("FAILED", 200, first.document)


async def test_a_job_shows_when_it_last_changed(client: JobClient) -> None:
    job = await client.submit(max_attempts=9)
    taken = await client.take()
    for tens, (verb, said) in enumerate(
        [("renew", {}), ("release", {}), ("fail", {"error": "no", "retryable": True})], start=1
    ):
        client.api.clock.advance(10)
        assert (await client.call(verb, job, taken["fence"], **said)).status == 200
        assert (await client.api.job(job))["updated_at"] == f"2030-01-01T00:00:{tens}0Z"
        taken = await client.take() if verb == "release" else taken
    client.api.clock.advance(570)
    assert (await client.take())["updated_at"] == "2030-01-01T00:10:00Z"


async def test_a_final_failure_can_be_repeated_and_nothing_else_can_be_said_of_it(client: JobClient) -> None:
    job = await client.submit(max_attempts=3)
    fence = (await client.take())["fence"]
    first = await client.call("fail", job, fence, error="no", retryable=False)
    repeated = await client.call("fail", job, fence, error="no", retryable=False)
    assert (repeated.status, repeated.document) == (200, first.document)
    for verb, said in (("complete", {"result": None}), ("release", {}), ("renew", {})):
        assert (await client.call(verb, job, fence, **said)).word == "fence_stale"
