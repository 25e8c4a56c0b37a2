"""Versions of a request are kept, however often it is asked again."""

from __future__ import annotations

from interlock.rooms.jobs.revisions import REVISIONS_MAX
from tests.harness.in_process_api import ASK, InProcessApi, Seen


async def refresh(api: InProcessApi, job: str, key: str) -> Seen:
    return await api.call("POST", f"approvals/{job}/refresh", key, {})


async def edit(api: InProcessApi, job: str, key: str, payload: object) -> Seen:
    return await api.call("POST", f"approvals/{job}/edit", key, {"payload": payload, "reason": "corrected"})


async def payloads(api: InProcessApi, job: str) -> list[int]:
    kept = await api.job(job)
    return [old["payload"] for old in kept["revisions"]] + [kept["payload"]]


async def test_asking_again_does_not_make_what_was_asked_first_go_away(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, 1)
    assert (await edit(api, job, bot, 2)).status == 200

    for _ in range(REVISIONS_MAX + 1):
        assert (await refresh(api, job, bot)).status == 200

    seen = await payloads(api, job)
    assert (seen[0], set(seen[1:]), len(seen)) == (1, {2}, REVISIONS_MAX + 1)
    assert (await api.job(job))["approval"]["round"] == REVISIONS_MAX + 3


async def test_edits_make_room_among_rounds_and_never_among_versions(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, 0)

    for version in range(1, REVISIONS_MAX + 1):
        assert (await refresh(api, job, bot)).status == 200
        assert (await edit(api, job, bot, version)).status == 200

    assert await payloads(api, job) == list(range(REVISIONS_MAX + 1))
