"""Approvals and claims are bound to the version of the target that the job was drafted for."""

from __future__ import annotations

from tests.rooms.effects.effect_client import Actors


async def test_an_approval_on_an_old_version_is_refused_with_the_conflict(actors: Actors) -> None:
    job = await actors.submit("v1")
    moved = await actors.touch("v2", by=actors.other)
    seen = await actors.api.approve(job, actors.ada)
    assert (seen.status, seen.word) == (409, "target_changed")
    assert seen.document["conflict_id"] == moved["conflict_id"]
    assert (await actors.api.job(job))["state"] == "APPROVAL"


async def test_a_job_drafted_for_a_version_that_was_gone_already_is_refused_once_recorded(
    actors: Actors,
) -> None:
    await actors.touch("v2")
    job = await actors.submit("v1")
    first, second = [await actors.api.approve(job, key) for key in (actors.ada, actors.bob)]
    assert first.word == second.word == "target_changed"
    assert first.document["conflict_id"] == second.document["conflict_id"]
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["count"]) == ("approval_on_old_version", 2)
    assert conflict["id"] == first.document["conflict_id"]


async def test_rejecting_needs_no_version(actors: Actors) -> None:
    job = await actors.submit("v1")
    await actors.touch("v2")
    assert (await actors.api.reject(job, actors.ada)).word == "rejected"


async def test_refreshing_puts_the_request_on_the_version_that_is_there(actors: Actors) -> None:
    job = await actors.submit("v1")
    before = (await actors.api.job(job))["job_hash"]
    await actors.touch("v2")
    assert (await actors.api.get(f"approvals/{job}"))["drift"]["target_changed"] is True
    refreshed = await actors.post(f"approvals/{job}/refresh", actors.bot)
    assert refreshed.document["target"] == {"key": "doc:1", "version": "v2"}
    assert refreshed.document["job_hash"] != before
    assert (await actors.api.get(f"approvals/{job}"))["drift"]["target_changed"] is False
    assert (await actors.api.approve(job, actors.ada)).word == "approved"


async def test_the_reviewer_sees_who_else_touched_the_target(actors: Actors) -> None:
    job = await actors.submit("v1")
    await actors.touch("v2", by=actors.other, summary="fixed a typo")
    (touch,) = (await actors.api.get(f"approvals/{job}"))["touches"]
    assert (touch["actor"], touch["version"], touch["summary"]) == ("other", "v2", "fixed a typo")


async def test_a_job_without_a_version_is_not_bound(actors: Actors) -> None:
    job = await actors.api.submit(actors.bot, topic="pay.a", target={"key": "doc:1"})
    await actors.touch("v2")
    assert (await actors.api.get(f"approvals/{job}"))["drift"]["target_changed"] is False
    refreshed = await actors.post(f"approvals/{job}/refresh", actors.bot)
    assert refreshed.document["target"] == {"key": "doc:1"}
    assert (await actors.api.approve(job, actors.ada)).word == "approved"


async def test_refreshing_leaves_a_version_of_which_no_change_is_known(actors: Actors) -> None:
    job = await actors.submit("v1")
    before = (await actors.api.job(job))["job_hash"]
    refreshed = await actors.post(f"approvals/{job}/refresh", actors.bot)
    assert refreshed.document["target"] == {"key": "doc:1", "version": "v1"}
    assert refreshed.document["job_hash"] == before
    assert (await actors.api.approve(job, actors.ada)).word == "approved"


async def test_an_approved_job_whose_target_moved_goes_back_to_people(actors: Actors) -> None:
    job = await actors.submit("v1")
    assert (await actors.api.approve(job, actors.ada)).word == "approved"
    await actors.touch("v2")
    assert await actors.claim("pay.a") == []
    seen = await actors.api.job(job)
    assert (seen["state"], seen["approval"]["state"]) == ("APPROVAL", "pending")
    assert (await actors.api.approve(job, actors.ada)).word == "target_changed"
    await actors.post(f"approvals/{job}/refresh", actors.bot)
    assert (await actors.api.approve(job, actors.ada)).word == "approved"
    (held,) = await actors.claim("pay.a")
    assert held["id"] == job


async def test_a_free_job_whose_target_moved_is_denied_with_the_reason(actors: Actors) -> None:
    await actors.touch("v2")
    job = await actors.submit("v1", "free.a")
    seen = await actors.post(f"jobs/{job}/claim", actors.worker)
    assert (seen.status, seen.word) == (409, "not_actionable")
    after = await actors.api.job(job)
    assert after["state"] == "DENIED"
    assert "moved from v1 to v2" in after["decision"]["reason"]
    (conflict,) = await actors.conflicts()
    assert (conflict["kind"], conflict["affected"]["job"]) == ("target_changed_after_draft", job)


async def test_a_job_for_the_version_that_is_there_is_claimed(actors: Actors) -> None:
    await actors.touch("v1")
    job = await actors.submit("v1", "free.a")
    (held,) = await actors.claim()
    assert held["id"] == job
