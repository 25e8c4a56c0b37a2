"""What becomes of work that fails, stalls or dies."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime

import pytest

from interlock.rooms.jobs.holds import JobBackoff
from interlock.rooms.jobs.model import JOBS
from tests.rooms.jobs.job_client import JobClient


async def test_a_lost_lease_returns_the_job_with_its_checkpoint_and_the_next_attempt(
    client: JobClient,
) -> None:
    job = await client.submit()
    held = await client.take(lease_seconds=10)
    await client.call("renew", job, held["fence"], checkpoint={"page": 3})
    client.api.clock.advance(10)
    await client.api.sweep()

    waiting = await client.api.job(job)

    assert (waiting["state"], waiting["attempt"], waiting["checkpoint"]) == ("PENDING", 2, {"page": 3})
    assert (await client.api.audit(job))[-1] == ("lose", "done")
    assert (await client.api.events(job))[-1] == "job.lease_lost"
    assert await client.claim() == []
    client.api.clock.advance(1)
    again = await client.take(by=client.other)
    assert (again["fence"], again["attempt"], again["checkpoint"]) == (2, 2, {"page": 3})


async def test_a_lost_job_can_be_claimed_although_no_sweep_ran(client: JobClient) -> None:
    job = await client.submit()
    await client.take(lease_seconds=10)
    client.api.clock.advance(11)

    again = await client.take(by=client.other)

    assert (again["id"], again["fence"], again["attempt"]) == (job, 2, 2)
    assert [action for action, _ in await client.api.audit(job)][-3:] == ["claim", "lose", "claim"]


async def test_crashes_count_and_past_the_last_attempt_the_job_is_a_dead_letter(client: JobClient) -> None:
    job = await client.submit(max_attempts=2)
    for _ in range(2):
        await client.take(lease_seconds=10)
        client.api.clock.advance(12)
    assert await client.claim() == []
    await client.api.sweep()

    dead = await client.api.job(job)

    assert (dead["state"], dead["attempt"], dead["error"]["type"]) == ("FAILED", 2, "lease_lost")
    assert (await client.api.events(job))[-1] == "job.failed"
    assert [item["id"] for item in (await client.api.get("jobs?state=FAILED"))["items"]] == [job]
    assert await client.api.metric("interlock_dead_letters") == 1


async def test_a_poison_job_delays_nobody(client: JobClient) -> None:
    poison = await client.submit(priority="critical", max_attempts=2)
    others = {await client.submit() for _ in range(5)}
    done: set[str] = set()
    for _ in range(20):
        for job in await client.claim(max=2, lease_seconds=10):
            if job["id"] != poison:
                await client.call("complete", job["id"], job["fence"], result=1)
                done.add(job["id"])
        client.api.clock.advance(3)
        await client.api.sweep()
    assert done == others
    assert (await client.api.job(poison))["state"] == "FAILED"


async def test_a_retryable_failure_is_tried_again_after_a_rest(client: JobClient) -> None:
    job = await client.submit(max_attempts=2)
    fence = (await client.take())["fence"]

    failed = await client.call("fail", job, fence, error={"type": "Timeout"}, retryable=True)

    assert (failed.document["state"], failed.document["attempt"]) == ("PENDING", 2)
    assert failed.document["error"] == {"type": "Timeout"}
    assert await client.claim() == []
    client.api.clock.advance(1)
    fence = (await client.take())["fence"]
    last = await client.call("fail", job, fence, error="again", retryable=True)
    assert (last.document["state"], last.document["error"]) == ("FAILED", "again")


async def test_a_final_failure_is_not_tried_again(client: JobClient) -> None:
    job = await client.submit()
    fence = (await client.take())["fence"]
    seen = await client.call("fail", job, fence, error="never", retryable=False)
    assert (seen.document["state"], seen.document["attempt"]) == ("FAILED", 1)


async def test_of_many_who_retry_a_dead_letter_one_wins(client: JobClient) -> None:
    job = await client.submit(max_attempts=2)
    for _ in range(2):
        fence = (await client.take())["fence"]
        await client.call("fail", job, fence, error="no")
        client.api.clock.advance(2)

    calls = [
        client.api.call("POST", f"jobs/{job}/retry", by, {}) for by in [client.bot, client.api.admin] * 10
    ]
    answers = await asyncio.gather(*calls)

    assert sorted(seen.status for seen in answers) == [200] + [409] * 19
    assert {seen.word for seen in answers if seen.status == 409} == {"not_actionable"}
    assert (await client.api.events(job)).count("job.retried") == 1
    again = await client.take()
    assert (again["attempt"], again["fence"]) == (1, 3)


async def test_a_dead_letter_whose_time_has_passed_stays_one(client: JobClient) -> None:
    job = await client.submit(expires_in="60s")
    held = await client.take()
    await client.call("fail", job, held["fence"], error="no", retryable=False)
    client.api.clock.advance(60)

    seen = await client.api.call("POST", f"jobs/{job}/retry", client.bot, {})

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "FAILED")
    assert (await client.api.job(job))["state"] == "FAILED"
    assert (await client.api.audit(job))[-1][0] == "retry_refused"


async def test_a_stranger_cannot_retry(client: JobClient) -> None:
    job = await client.submit(max_attempts=1)
    fence = (await client.take())["fence"]
    await client.call("fail", job, fence, error="no")
    stranger = await client.api.agent("stranger")
    assert (await client.api.call("POST", f"jobs/{job}/retry", stranger, {})).word == "forbidden"


async def test_the_rest_doubles_up_to_its_bound_with_jitter_below_it(client: JobClient) -> None:
    job = await client.api.service.store.get(JOBS, "default", await client.submit())
    assert job is not None
    import msgspec

    backoff = JobBackoff(base_seconds=1, most_seconds=60)
    rests = [
        backoff.after(msgspec.structs.replace(job, attempt=attempt)).total_seconds()
        for attempt in range(1, 12)
    ]
    for attempt, rest in enumerate(rests, start=1):
        full = min(60, 2 ** (attempt - 1))
        assert full / 2 <= rest <= full
    again = backoff.after(msgspec.structs.replace(job, attempt=11)).total_seconds()
    assert again == rests[-1]
    assert len({round(rest / min(60, 2**n), 6) for n, rest in enumerate(rests)}) > 5


async def test_an_unclaimed_job_is_offered_again_at_growing_intervals_and_counted(client: JobClient) -> None:
    job = await client.approved("pay.a")
    offered: list[datetime] = []
    for _ in range(30):
        client.api.clock.advance(60)
        before = await client.api.metric("interlock_replayed_total")
        await client.api.sweep()
        if await client.api.metric("interlock_replayed_total") > before:
            offered.append(client.api.clock.now)

    gaps = [(later - sooner).total_seconds() for sooner, later in itertools.pairwise(offered)]
    assert gaps == [120, 240, 480]
    assert (await client.api.audit(job)).count(("replay", "done")) == 1
    assert await client.api.metric('interlock_replayed_age_seconds_bucket{le="60"}') == 1
    assert (await client.take("pay.a"))["id"] == job


@pytest.mark.parametrize("count", [250])
async def test_one_sweep_settles_everything_however_much_there_is(client: JobClient, count: int) -> None:
    for _ in range(count):
        await client.submit()
    taken = 0
    while jobs := await client.claim(max=100, lease_seconds=10):
        taken += len(jobs)
    client.api.clock.advance(10)
    await client.api.sweep()
    assert taken == count
    assert await client.api.metric("interlock_leases_lost_total") == count
    pending = await client.api.get("jobs?state=RUNNING")
    assert pending["items"] == []
