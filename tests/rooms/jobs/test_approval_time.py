"""What time does to a request: by the batch's clock at once, by the sweep for the record."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import Stage

HOUR = """
version: v1
rules:
  - {id: hour, when: {topic: pay}, decision: require_human, approval: {expires_in: 1h}}
  - {id: read, when: {topic: read}, decision: allow}
"""
STEPS = """
version: v1
rules:
  - id: steps
    when: {topic: pay}
    decision: require_human
    approval:
      groups: [desk]
      expires_in: 1h
      on_expiry: deny
      escalate: [{after: 10m, groups: [leads]}, {after: 30m, groups: [board]}]
"""
STEPS_ESCALATING = STEPS.replace("on_expiry: deny", "on_expiry: escalate")


async def test_an_hour_is_an_hour(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)

    stage.clock.advance(3599.999)

    assert (await stage.approve(job, ada)).word == "approved"


@pytest.mark.parametrize("swept", [False, True])
async def test_an_expired_request_is_expired_whether_or_not_a_sweep_has_run(
    stage: Stage, swept: bool
) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)

    stage.clock.advance(3600)
    if swept:
        await stage.sweep()

    for decide in (stage.approve, stage.reject):
        late = await decide(job, ada)
        assert (late.status, late.word) == (409, "approval_expired")
    assert ("approve_refused", "ApprovalExpired") in await stage.audit(job)


async def test_the_sweep_records_and_announces_an_expiry_once(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot = await stage.agent()
    job = await stage.submit(bot)
    stage.clock.advance(3600)

    await stage.sweep()
    await stage.sweep()

    assert (await stage.job(job))["state"] == "EXPIRED"
    assert await stage.events(job) == ["approval.requested", "approval.expired"]
    assert await stage.audit(job) == [("submit", "done"), ("expire", "done")]
    assert [item["id"] for item in (await stage.get("approvals?state=expired"))["items"]] == [job]


async def test_the_sweep_leaves_what_is_not_due(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot = await stage.agent()
    job = await stage.submit(bot)
    stage.clock.advance(3599)

    await stage.sweep()

    assert (await stage.job(job))["version"] == 1


async def test_one_sweep_clears_any_number_of_overdue_jobs(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot = await stage.agent()
    jobs = [await stage.submit(bot) for _ in range(250)]
    stage.clock.advance(3600)

    await stage.sweep()

    assert {(await stage.job(job))["state"] for job in jobs} == {"EXPIRED"}


async def test_a_jobs_own_expiry_ends_its_request(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot, expires_in="5m")
    stage.clock.advance(300)

    assert (await stage.approve(job, ada)).word == "approval_expired"


async def test_a_jobs_own_expiry_ends_its_request_even_while_escalation_would_go_on(stage: Stage) -> None:
    await stage.policy(STEPS_ESCALATING)
    bot, ada = await stage.agent(), await stage.person("ada", groups=("board",))
    job = await stage.submit(bot, expires_in="20m")
    stage.clock.advance(20 * 60)

    late = await stage.approve(job, ada)

    assert (late.status, late.word) == (409, "approval_expired")
    assert "submit it again" in late.document["detail"]


async def test_an_approved_job_still_expires_by_its_own_time(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot, expires_in="5m")
    await stage.approve(job, ada)
    stage.clock.advance(300)

    await stage.sweep()

    assert (await stage.job(job))["state"] == "EXPIRED"
    assert (await stage.events(job))[-1] == "job.expired"


async def test_a_job_that_ran_in_time_stays_approved_when_its_time_is_up(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    worker = await stage.key("worker", "worker", "work")
    job = await stage.submit(bot, expires_in="5m")
    await stage.approve(job, ada)
    (claimed,) = (await stage.call("POST", "jobs/claim", worker, {"topics": ["pay"]})).document["jobs"]
    await stage.call("POST", f"jobs/{job}/complete", worker, {"fence": claimed["fence"], "result": None})
    stage.clock.advance(300)

    again, against = await stage.approve(job, ada), await stage.reject(job, ada)

    assert (again.word, against.word) == ("already_approved", "already_approved")
    assert (again.status, against.status) == (200, 409)


async def test_a_released_job_expires_by_its_own_time(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot = await stage.agent()
    job = await stage.submit(bot, topic="read", expires_in="5m")
    stage.clock.advance(300)

    await stage.sweep()

    assert (await stage.job(job))["state"] == "EXPIRED"


async def test_steps_open_to_more_groups_in_turn_and_are_announced_once_each(stage: Stage) -> None:
    await stage.policy(STEPS)
    bot = await stage.agent()
    lead = await stage.person("lead", groups=("leads",))
    director = await stage.person("director", groups=("board",))
    job = await stage.submit(bot)

    assert (await stage.approve(job, lead)).word == "not_eligible"
    stage.clock.advance(600)
    await stage.sweep()
    await stage.sweep()
    assert (await stage.approve(job, director)).word == "not_eligible"
    assert (await stage.events(job)).count("approval.escalated") == 1
    stage.clock.advance(1200)
    await stage.sweep()
    assert (await stage.events(job)).count("approval.escalated") == 2
    assert (await stage.approve(job, director)).word == "approved"


async def test_a_step_is_open_by_the_clock_even_if_no_sweep_has_run(stage: Stage) -> None:
    await stage.policy(STEPS)
    bot, lead = await stage.agent(), await stage.person("lead", groups=("leads",))
    job = await stage.submit(bot)
    stage.clock.advance(600)

    assert (await stage.approve(job, lead)).word == "approved"


async def test_two_steps_missed_by_the_sweep_are_announced_together(stage: Stage) -> None:
    await stage.policy(STEPS)
    bot = await stage.agent()
    job = await stage.submit(bot)
    stage.clock.advance(1900)

    await stage.sweep()
    await stage.sweep()

    assert (await stage.events(job)).count("approval.escalated") == 1
    assert (await stage.job(job))["version"] == 2


async def test_where_expiry_escalates_the_last_groups_get_one_more_period(stage: Stage) -> None:
    await stage.policy(STEPS_ESCALATING)
    bot, director = await stage.agent(), await stage.person("director", groups=("board",))
    in_time, late = await stage.submit(bot), await stage.submit(bot)

    stage.clock.advance(3600)
    await stage.sweep()
    assert (await stage.job(in_time))["state"] == "APPROVAL"
    stage.clock.advance(3599)
    assert (await stage.approve(in_time, director)).word == "approved"
    stage.clock.advance(1)
    assert (await stage.approve(late, director)).word == "approval_expired"
    await stage.sweep()
    assert (await stage.job(late))["state"] == "EXPIRED"


async def test_where_expiry_escalates_a_long_lived_job_gets_no_more_than_one_more_period(
    stage: Stage,
) -> None:
    await stage.policy(STEPS_ESCALATING)
    bot, director = await stage.agent(), await stage.person("director", groups=("board",))
    job = await stage.submit(bot, expires_in="5h")
    stage.clock.advance(2 * 3600)

    assert (await stage.approve(job, director)).word == "approval_expired"


async def test_where_expiry_escalates_a_short_lived_job_announces_its_steps_in_time(stage: Stage) -> None:
    await stage.policy(STEPS_ESCALATING.replace("expires_in: 1h", "expires_in: 2h"))
    bot = await stage.agent()
    job = await stage.submit(bot, expires_in="25m")
    stage.clock.advance(24 * 60)
    await stage.sweep()
    assert (await stage.events(job)).count("approval.escalated") == 1

    stage.clock.advance(60)
    await stage.sweep()

    assert (await stage.job(job))["state"] == "EXPIRED"


@pytest.mark.parametrize("policy", [HOUR, STEPS, STEPS_ESCALATING])
async def test_the_sweep_always_comes_to_rest(stage: Stage, policy: str) -> None:
    """Whatever is due is settled by the pass that finds it, so no pass repeats the one before."""
    await stage.policy(policy)
    bot = await stage.agent()
    job = await stage.submit(bot)

    for _ in range(130):
        stage.clock.advance(61)
        await stage.sweep()
        version = (await stage.job(job))["version"]
        await stage.sweep()
        assert (await stage.job(job))["version"] == version
    assert (await stage.job(job))["state"] == "EXPIRED"


async def test_an_expired_request_can_be_asked_anew(stage: Stage) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    stage.clock.advance(3600)
    await stage.sweep()

    refreshed = await stage.call("POST", f"approvals/{job}/refresh", ada, {})

    assert refreshed.document["state"] == "APPROVAL"
    assert refreshed.document["approval"]["round"] == 2
    assert refreshed.document["approval"]["expires_at"] == "2030-01-01T02:00:00Z"
    assert (await stage.approve(job, ada)).word == "approved"


@pytest.mark.parametrize("swept", [False, True])
async def test_a_job_whose_own_time_is_up_cannot_be_asked_anew(stage: Stage, swept: bool) -> None:
    await stage.policy(HOUR)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot, expires_in="5m")
    stage.clock.advance(300)
    if swept:
        await stage.sweep()

    refused = await stage.call("POST", f"approvals/{job}/refresh", ada, {})

    assert (refused.status, refused.word) == (409, "approval_expired")
    assert (await stage.audit(job))[-1] == ("refresh_refused", "JobExpired")
