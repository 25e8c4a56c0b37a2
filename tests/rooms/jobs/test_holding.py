"""Fences and leases: who may say what about a job, and until when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rooms.jobs.job_client import JobClient

VERBS = [("renew", {}), ("complete", {"result": 1}), ("fail", {"error": "x"}), ("release", {})]


async def test_completing_finishes_the_job_with_its_result(client: JobClient) -> None:
    job = await client.submit()
    held = await client.take()

    seen = await client.call("complete", job, held["fence"], result={"receipt": 7})

    assert (seen.status, seen.document["state"], seen.document["result"]) == (
        200,
        "SUCCEEDED",
        {"receipt": 7},
    )
    assert seen.document["finished_at"] == "2030-01-01T00:00:00Z"
    assert seen.document["leased_by"] is None
    assert (await client.api.events(job))[-1] == "job.succeeded"


@pytest.mark.parametrize(("verb", "body"), VERBS[1:])
async def test_repeating_what_ended_the_work_changes_nothing(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    first = await client.call(verb, job, fence, **body)
    before = await client.api.audit(job)

    again = await client.call(verb, job, fence, **body)

    assert (again.status, again.document) == (200, first.document)
    assert await client.api.audit(job) == before


@pytest.mark.parametrize(
    ("verb", "said", "other"),
    [
        ("complete", {"result": 1}, {"result": 2}),
        ("complete", {"result": {"paid": 1}}, {"result": {"paid": True}}),
        ("fail", {"error": "x"}, {"error": "y"}),
        ("fail", {"error": "x"}, {"error": "x", "retryable": False}),
    ],
)
async def test_saying_something_else_of_work_that_ended_is_refused_and_not_swallowed(
    client: JobClient, verb: str, said: dict[str, Any], other: dict[str, Any]
) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    await client.call(verb, job, fence, **said)
    before = await client.api.job(job)

    again = await client.call(verb, job, fence, **other)

    assert (again.status, again.word) == (409, "fence_stale")
    assert await client.api.job(job) == before


@pytest.mark.parametrize(("verb", "body"), VERBS)
async def test_a_stale_fence_changes_nothing_and_is_recorded(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    old = (await client.take(lease_seconds=10))["fence"]
    client.api.clock.advance(15)
    await client.take(by=client.other)
    before = await client.api.job(job)

    seen = await client.call(verb, job, old, **body)

    assert (seen.status, seen.word) == (409, "fence_stale")
    assert (seen.document["fence"], seen.document["holder"]) == (old, "other")
    assert "current_fence" not in seen.document  # It is the holder's.
    assert await client.api.job(job) == before
    assert (await client.api.audit(job))[-1] == (f"{verb}_refused", "FenceStale")
    assert await client.api.metric(f'interlock_fences_stale_total{{verb="{verb}"}}') == 1


@pytest.mark.parametrize(("verb", "body"), VERBS)
async def test_a_lease_that_ran_out_is_lost_even_if_nobody_took_the_job(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    fence = (await client.take(lease_seconds=10))["fence"]
    client.api.clock.advance(10)
    assert (await client.call(verb, job, fence, **body)).word == "fence_stale"


@pytest.mark.parametrize(("verb", "body"), VERBS)
async def test_two_workers_with_one_key_are_told_apart_by_their_fences(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    old = (await client.take(lease_seconds=10))["fence"]
    client.api.clock.advance(15)
    new = (await client.take())["fence"]
    assert (await client.call(verb, job, old, **body)).word == "fence_stale"
    assert (await client.call(verb, job, new + 1, **body)).word == "fence_stale"
    assert (await client.call(verb, job, new, **body)).status == 200


@pytest.mark.parametrize(("verb", "body"), VERBS)
async def test_the_right_fence_in_the_wrong_hands_is_refused(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    assert (await client.call(verb, job, fence, by=client.other, **body)).word == "fence_stale"


@pytest.mark.parametrize(("verb", "body"), VERBS)
async def test_nobody_holds_a_job_that_was_never_claimed(
    client: JobClient, verb: str, body: dict[str, Any]
) -> None:
    job = await client.submit()
    assert (await client.call(verb, job, 1, **body)).word == "fence_stale"


async def test_renewing_keeps_the_job_and_its_checkpoint(client: JobClient) -> None:
    job = await client.submit()
    held = await client.take(lease_seconds=10)
    for n in range(5):
        client.api.clock.advance(8)
        seen = await client.call("renew", job, held["fence"], checkpoint={"page": n})
        assert seen.status == 200
        assert await client.claim(by=client.other) == []

    assert seen.document["lease_expires_at"] == "2030-01-01T00:00:50Z"
    assert seen.document["permit"] != held["permit"]
    assert (await client.api.job(job))["checkpoint"] == {"page": 4}


async def test_a_renewal_without_a_checkpoint_keeps_the_one_before(client: JobClient) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    await client.call("renew", job, fence, checkpoint=[1])
    await client.call("renew", job, fence)
    assert (await client.api.job(job))["checkpoint"] == [1]


async def test_releasing_gives_the_job_back_at_once_and_counts_no_attempt(client: JobClient) -> None:
    job = await client.submit(max_attempts=1)
    first = await client.take()
    await client.call("release", job, first["fence"], checkpoint="half")

    second = await client.take(by=client.other)

    assert (second["fence"], second["attempt"], second["checkpoint"]) == (2, 1, "half")


async def test_fences_only_grow_for_ever(client: JobClient) -> None:
    job = await client.submit(max_attempts=1)
    fences: list[int] = []
    for _ in range(3):
        held = await client.take()
        fences.append(held["fence"])
        await client.call("fail", job, held["fence"], error="no", retryable=False)
        assert (await client.api.call("POST", f"jobs/{job}/retry", client.bot, {})).status == 200
    assert fences == [1, 2, 3]


async def test_a_cancelled_job_is_no_longer_its_workers(client: JobClient) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    assert (await client.api.call("POST", f"jobs/{job}/cancel", client.bot, {})).status == 200
    seen = await client.call("complete", job, fence, result=1)
    assert (seen.word, seen.document["state"]) == ("fence_stale", "CANCELLED")
    assert "holder" not in seen.document


async def test_of_completing_and_failing_at_once_one_holds(client: JobClient) -> None:
    for _ in range(20):
        job = await client.submit()
        fence = (await client.take())["fence"]
        done, failed = await asyncio.gather(
            client.call("complete", job, fence, result=1),
            client.call("fail", job, fence, error="x", retryable=False),
        )
        assert sorted((done.status, failed.status)) == [200, 409]
        state = (await client.api.job(job))["state"]
        assert state == ("SUCCEEDED" if done.status == 200 else "FAILED")


@pytest.mark.parametrize(
    ("verb", "field", "most"),
    [
        ("renew", "checkpoint", 64),
        ("complete", "result", 256),
        ("fail", "error", 16),
        ("release", "checkpoint", 64),
    ],
)
async def test_what_is_kept_with_a_job_is_bounded(
    client: JobClient, verb: str, field: str, most: int
) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    body = {"error": "x"} if verb == "fail" else {}
    seen = await client.call(verb, job, fence, **{**body, field: "x" * most * 1024})
    assert (seen.status, seen.word, seen.document["limit_bytes"]) == (413, "too_large", most * 1024)
    assert (await client.call(verb, job, fence, **{**body, field: "x" * (most * 1024 - 2)})).status == 200
