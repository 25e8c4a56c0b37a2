"""Versions of a request are kept, however often it is asked again."""

from __future__ import annotations

from interlock.rooms.jobs.revisions import REVISIONS_MAX
from tests.harness.in_process_api import ASK, Seen, Stage


async def refresh(stage: Stage, job: str, key: str) -> Seen:
    return await stage.call("POST", f"approvals/{job}/refresh", key, {})


async def edit(stage: Stage, job: str, key: str, payload: object) -> Seen:
    return await stage.call("POST", f"approvals/{job}/edit", key, {"payload": payload, "reason": "corrected"})


async def payloads(stage: Stage, job: str) -> list[int]:
    kept = await stage.job(job)
    return [old["payload"] for old in kept["revisions"]] + [kept["payload"]]


async def test_asking_again_does_not_make_what_was_asked_first_go_away(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, 1)
    assert (await edit(stage, job, bot, 2)).status == 200

    for _ in range(REVISIONS_MAX + 1):
        assert (await refresh(stage, job, bot)).status == 200

    seen = await payloads(stage, job)
    assert (seen[0], set(seen[1:]), len(seen)) == (1, {2}, REVISIONS_MAX + 1)
    assert (await stage.job(job))["approval"]["round"] == REVISIONS_MAX + 3


async def test_edits_make_room_among_rounds_and_never_among_versions(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, 0)

    for version in range(1, REVISIONS_MAX + 1):
        assert (await refresh(stage, job, bot)).status == 200
        assert (await edit(stage, job, bot, version)).status == 200

    assert await payloads(stage, job) == list(range(REVISIONS_MAX + 1))
