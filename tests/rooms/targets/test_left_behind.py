"""What a touch leaves behind, and whom it does not concern."""

from __future__ import annotations

from tests.rooms.effects.effect_client import Actors

BOUND = {"key": "doc:1", "version": "v1"}


async def test_a_touch_is_audited_and_announced(actors: Actors) -> None:
    await actors.touch("v1")
    headers = {"x-request-id": "monday"}
    said = {"version": "v2", "previous_version": "v0", "summary": "a typo"}
    await actors.api.call("POST", "targets/doc%3A1/touch", actors.bob, said, headers=headers)

    newest = (await actors.api.get("audit?subject=doc:1"))["items"][0]
    told = [newest[field] for field in ("action", "actor", "subject_version", "request_id")]
    assert told == ["target_touch", "bob", 2, "monday"]
    details = {name: newest["details"][name] for name in ("version", "previous_version", "summary")}
    assert details == {"version": "v2", "previous_version": "v1", "summary": "a typo"}
    assert await actors.api.events("doc:1") == ["target.touched", "target.touched"]


async def test_a_submitters_own_touch_collides_with_nobody(actors: Actors) -> None:
    await actors.submit("v1")
    assert (await actors.touch("v2", by=actors.bot))["conflict_id"] is None
    assert await actors.conflicts() == []


async def test_a_touch_collides_with_no_job_whose_time_is_up(actors: Actors) -> None:
    await actors.api.submit(actors.bot, topic="pay.a", target=BOUND, expires_in="60s")
    actors.api.clock.advance(60)
    assert (await actors.touch("v2", by=actors.other))["conflict_id"] is None
