"""Withdrawing a job: by whom, from which states, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.in_process_api import ASK, Seen, Stage


async def cancel(stage: Stage, job: str, key: str) -> Seen:
    return await stage.call("POST", f"jobs/{job}/cancel", key, {"reason": "changed my mind"})


@pytest.mark.parametrize("topic", ["pay", "read"])
async def test_the_submitter_withdraws_what_waits_or_was_released(stage: Stage, topic: str) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, topic=topic)

    seen = await cancel(stage, job, bot)

    assert (seen.status, seen.document["state"]) == (200, "CANCELLED")
    assert seen.document["finished_at"] == seen.document["updated_at"]
    assert (await stage.events(job))[-1] == "job.cancelled"
    assert (await stage.audit(job))[-1] == ("cancel", "done")


async def test_withdrawing_twice_changes_nothing(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot)
    first = await cancel(stage, job, bot)

    again = await cancel(stage, job, bot)

    assert (again.status, again.document) == (200, first.document)
    assert (await stage.events(job)).count("job.cancelled") == 1


async def test_an_operator_withdraws_anything_and_a_stranger_nothing(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, stranger = await stage.agent(), await stage.agent("stranger")
    operator = await stage.person("op", "operate")
    job = await stage.submit(bot)

    assert (await cancel(stage, job, stranger)).word == "forbidden"
    assert (await stage.audit(job))[-1] == ("cancel_refused", "Forbidden")
    assert (await cancel(stage, job, operator)).status == 200


async def test_a_rejected_job_cannot_be_withdrawn(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.reject(job, ada)

    seen = await cancel(stage, job, bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "DENIED")


@pytest.mark.parametrize("swept", [True, False])
@pytest.mark.parametrize("topic", ["pay", "read"])
async def test_an_expired_job_cannot_be_withdrawn_whether_or_not_a_sweep_has_run(
    stage: Stage, topic: str, swept: bool
) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot, topic=topic, expires_in="1m")
    stage.clock.advance(60)
    if swept:
        await stage.sweep()

    seen = await cancel(stage, job, bot)

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "EXPIRED")
    await stage.sweep()
    assert (await stage.job(job))["state"] == "EXPIRED"


async def test_a_withdrawn_request_leaves_the_inbox(stage: Stage) -> None:
    await stage.policy(ASK)
    bot = await stage.agent()
    job = await stage.submit(bot)
    await cancel(stage, job, bot)

    assert (await stage.get("approvals?state=pending"))["items"] == []


async def test_a_yes_and_a_withdrawal_at_once_end_in_a_cancelled_job(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent(), await stage.person("ada")
    for _ in range(20):
        job = await stage.submit(bot)
        approved, cancelled = await asyncio.gather(stage.approve(job, ada), cancel(stage, job, bot))

        assert (cancelled.status, (await stage.job(job))["state"]) == (200, "CANCELLED")
        assert approved.word in ("approved", "not_actionable")
        assert (await stage.events(job)).count("approval.approved") == (approved.word == "approved")
