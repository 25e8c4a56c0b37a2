"""Withdrawing a job: by whom, from which states, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.in_process_api import ASK, InProcessApi, Seen


async def cancel(api: InProcessApi, job: str, key: str) -> Seen:
    return await api.call("POST", f"jobs/{job}/cancel", key, {"reason": "changed my mind"})


@pytest.mark.parametrize("topic", ["pay", "read"])
async def test_the_submitter_withdraws_what_waits_or_was_released(api: InProcessApi, topic: str) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, topic=topic)

    seen = await cancel(api, job, bot)

    assert (seen.status, seen.document["state"]) == (200, "CANCELLED")
    assert seen.document["finished_at"] == seen.document["updated_at"]
    assert (await api.events(job))[-1] == "job.cancelled"
    assert (await api.audit(job))[-1] == ("cancel", "done")


async def test_withdrawing_twice_changes_nothing(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)
    first = await cancel(api, job, bot)

    again = await cancel(api, job, bot)

    assert (again.status, again.document) == (200, first.document)
    assert (await api.events(job)).count("job.cancelled") == 1


async def test_an_operator_withdraws_anything_and_a_stranger_nothing(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, stranger = await api.agent(), await api.agent("stranger")
    operator = await api.person("op", "operate")
    job = await api.submit(bot)

    assert (await cancel(api, job, stranger)).word == "forbidden"
    assert (await api.audit(job))[-1] == ("cancel_refused", "Forbidden")
    assert (await cancel(api, job, operator)).status == 200


async def test_a_rejected_job_cannot_be_withdrawn(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.reject(job, ada)

    seen = await cancel(api, job, bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "DENIED")


@pytest.mark.parametrize("swept", [True, False])
@pytest.mark.parametrize("topic", ["pay", "read"])
async def test_an_expired_job_cannot_be_withdrawn_whether_or_not_a_sweep_has_run(
    api: InProcessApi, topic: str, swept: bool
) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot, topic=topic, expires_in="1m")
    api.clock.advance(60)
    if swept:
        await api.sweep()

    seen = await cancel(api, job, bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "EXPIRED")
    await api.sweep()
    assert (await api.job(job))["state"] == "EXPIRED"


async def test_a_withdrawn_request_leaves_the_inbox(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent()
    job = await api.submit(bot)
    await cancel(api, job, bot)

    assert (await api.get("approvals?state=pending"))["items"] == []


async def test_a_yes_and_a_withdrawal_at_once_end_in_a_cancelled_job(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    for _ in range(20):
        job = await api.submit(bot)
        approved, cancelled = await asyncio.gather(api.approve(job, ada), cancel(api, job, bot))

        assert (cancelled.status, (await api.job(job))["state"]) == (200, "CANCELLED")
        assert approved.word in ("approved", "not_actionable")
        assert (await api.events(job)).count("approval.approved") == (approved.word == "approved")
