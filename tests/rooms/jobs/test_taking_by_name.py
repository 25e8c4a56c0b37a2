"""A job taken by its name, and how many one claim takes."""

from __future__ import annotations

from tests.harness.in_process_api import Seen
from tests.rooms.jobs.job_client import Shift


async def take(shift: Shift, job: str, by: str | None = None) -> Seen:
    return await shift.stage.call("POST", f"jobs/{job}/claim", by or shift.worker, {"lease_seconds": 30})


async def test_a_claim_on_several_topics_takes_no_more_than_it_asked_for(shift: Shift) -> None:
    for topic in ("free.a", "free.b", "free.c"):
        await shift.submit(topic)
    assert len(await shift.claim("free.a", "free.b", "free.c", max=2)) == 2
    assert len(await shift.claim("free.a", "free.b", "free.c", max=2)) == 1


async def test_a_job_whose_worker_lost_it_is_taken_by_name_under_the_next_fence(shift: Shift) -> None:
    job = await shift.submit()
    first = (await take(shift, job)).document
    shift.stage.clock.advance(29)
    assert (await take(shift, job, by=shift.other)).status == 409
    shift.stage.clock.advance(1)

    second = await take(shift, job, by=shift.other)

    assert second.status == 200, second.document
    assert (second.document["fence"], second.document["attempt"]) == (first["fence"] + 1, 2)
    assert (await shift.call("complete", job, first["fence"], result=1)).word == "fence_stale"


async def test_a_job_that_was_lost_for_the_last_time_is_not_taken_any_more(shift: Shift) -> None:
    job = await shift.submit(max_attempts=1)
    await take(shift, job)
    shift.stage.clock.advance(30)
    seen = await take(shift, job, by=shift.other)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "FAILED")


async def test_a_job_that_is_done_is_not_taken_any_more(shift: Shift) -> None:
    job = await shift.submit()
    await shift.call("complete", job, (await shift.take())["fence"], result=1)
    seen = await take(shift, job)
    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "SUCCEEDED")


async def test_a_submitter_who_may_not_submit_any_more_takes_nothing(shift: Shift) -> None:
    job = await shift.submit()
    lost = {"roles": ["audit"]}
    assert (await shift.stage.call("PUT", "principals/bot", shift.stage.admin, lost)).status == 200
    assert (await take(shift, job, by=shift.bot)).word == "forbidden"


async def test_a_job_that_was_lost_and_may_not_run_any_more_is_settled_by_the_claim_that_finds_it(
    shift: Shift,
) -> None:
    job = await shift.submit()
    await take(shift, job)
    await shift.stage.policy("version: v1\nrules: [{id: frozen, when: {topic: '**'}, decision: deny}]\n")
    shift.stage.clock.advance(600)

    assert await shift.claim() == []

    assert (await shift.stage.job(job))["state"] == "DENIED"
    assert (await shift.stage.audit(job))[-2:] == [("lose", "done"), ("deny", "done")]


async def test_a_job_whose_target_moved_is_told_where_it_went(shift: Shift) -> None:
    target = {"key": "doc", "version": "v1"}
    free, asked = await shift.submit(target=target), await shift.approved(target=target)
    await shift.stage.call("POST", "targets/doc/touch", shift.ada, {"version": "v2"})
    for job, state in ((free, "DENIED"), (asked, "APPROVAL")):
        seen = await take(shift, job)
        assert (seen.status, seen.document["state"]) == (409, state)
        assert (await shift.stage.job(job))["state"] == state
