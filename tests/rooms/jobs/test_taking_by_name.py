"""A job taken by its name, and how many one claim takes."""

from __future__ import annotations

from tests.harness.in_process_api import Seen
from tests.rooms.jobs.job_client import JobClient


async def take(client: JobClient, job: str, by: str | None = None) -> Seen:
    return await client.api.call("POST", f"jobs/{job}/claim", by or client.worker, {"lease_seconds": 30})


async def test_a_claim_on_several_topics_takes_no_more_than_it_asked_for(client: JobClient) -> None:
    for topic in ("free.a", "free.b", "free.c"):
        await client.submit(topic)
    assert len(await client.claim("free.a", "free.b", "free.c", max=2)) == 2
    assert len(await client.claim("free.a", "free.b", "free.c", max=2)) == 1


async def test_a_job_whose_worker_lost_it_is_taken_by_name_under_the_next_fence(client: JobClient) -> None:
    job = await client.submit()
    first = (await take(client, job)).document
    client.api.clock.advance(29)
    assert (await take(client, job, by=client.other)).status == 409
    client.api.clock.advance(1)

    second = await take(client, job, by=client.other)

    assert second.status == 200, second.document
    assert (second.document["fence"], second.document["attempt"]) == (first["fence"] + 1, 2)
    assert (await client.call("complete", job, first["fence"], result=1)).word == "fence_stale"


async def test_a_job_that_was_lost_for_the_last_time_is_not_taken_any_more(client: JobClient) -> None:
    job = await client.submit(max_attempts=1)
    await take(client, job)
    client.api.clock.advance(30)
    seen = await take(client, job, by=client.other)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "FAILED")


async def test_a_job_that_is_done_is_not_taken_any_more(client: JobClient) -> None:
    job = await client.submit()
    await client.call("complete", job, (await client.take())["fence"], result=1)
    seen = await take(client, job)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "SUCCEEDED")


async def test_a_submitter_who_may_not_submit_any_more_takes_nothing(client: JobClient) -> None:
    job = await client.submit()
    lost = {"roles": ["audit"]}
    assert (await client.api.call("PUT", "principals/bot", client.api.admin, lost)).status == 200
    assert (await take(client, job, by=client.bot)).word == "forbidden"


async def test_a_job_that_was_lost_and_may_not_run_any_more_is_settled_by_the_claim_that_finds_it(
    client: JobClient,
) -> None:
    job = await client.submit()
    await take(client, job)
    await client.api.policy("version: v1\nrules: [{id: frozen, when: {topic: '**'}, decision: deny}]\n")
    client.api.clock.advance(600)

    assert await client.claim() == []

    assert (await client.api.job(job))["state"] == "DENIED"
    assert (await client.api.audit(job))[-2:] == [("lose", "done"), ("deny", "done")]


async def test_a_job_whose_target_moved_is_told_where_it_went(client: JobClient) -> None:
    target = {"key": "doc", "version": "v1"}
    free, asked = await client.submit(target=target), await client.approved(target=target)
    await client.api.call("POST", "targets/doc/touch", client.ada, {"version": "v2"})
    for job, state in ((free, "DENIED"), (asked, "APPROVAL")):
        seen = await take(client, job)
        assert (seen.status, seen.document["state"]) == (409, state)
        assert (await client.api.job(job))["state"] == state
