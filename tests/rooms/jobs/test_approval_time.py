"""What time does to a request: by the batch's clock at once, by the sweep for the record."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import InProcessApi

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


async def test_an_hour_is_an_hour(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    api.clock.advance(3599.999)

    assert (await api.approve(job, ada)).word == "approved"


@pytest.mark.parametrize("swept", [False, True])
async def test_an_expired_request_is_expired_whether_or_not_a_sweep_has_run(
    api: InProcessApi, swept: bool
) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    api.clock.advance(3600)
    if swept:
        await api.sweep()

    for decide in (api.approve, api.reject):
        late = await decide(job, ada)
        assert (late.status, late.word) == (409, "approval_expired")
    assert ("approve_refused", "ApprovalExpired") in await api.audit(job)


async def test_the_sweep_records_and_announces_an_expiry_once(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot = await api.agent()
    job = await api.submit(bot)
    api.clock.advance(3600)

    await api.sweep()
    await api.sweep()

    assert (await api.job(job))["state"] == "EXPIRED"
    assert await api.events(job) == ["approval.requested", "approval.expired"]
    assert await api.audit(job) == [("submit", "done"), ("expire", "done")]
    assert [item["id"] for item in (await api.get("approvals?state=expired"))["items"]] == [job]


async def test_the_sweep_leaves_what_is_not_due(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot = await api.agent()
    job = await api.submit(bot)
    api.clock.advance(3599)

    await api.sweep()

    assert (await api.job(job))["version"] == 1


async def test_one_sweep_clears_any_number_of_overdue_jobs(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot = await api.agent()
    jobs = [await api.submit(bot) for _ in range(250)]
    api.clock.advance(3600)

    await api.sweep()

    assert {(await api.job(job))["state"] for job in jobs} == {"EXPIRED"}


async def test_a_jobs_own_expiry_ends_its_request(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, expires_in="5m")
    api.clock.advance(300)

    assert (await api.approve(job, ada)).word == "approval_expired"


async def test_a_jobs_own_expiry_ends_its_request_even_while_escalation_would_go_on(
    api: InProcessApi,
) -> None:
    await api.policy(STEPS_ESCALATING)
    bot, ada = await api.agent(), await api.person("ada", groups=("board",))
    job = await api.submit(bot, expires_in="20m")
    api.clock.advance(20 * 60)

    late = await api.approve(job, ada)

    assert (late.status, late.word) == (409, "approval_expired")
    assert "submit it again" in late.document["detail"]


async def test_an_approved_job_still_expires_by_its_own_time(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, expires_in="5m")
    await api.approve(job, ada)
    api.clock.advance(300)

    await api.sweep()

    assert (await api.job(job))["state"] == "EXPIRED"
    assert (await api.events(job))[-1] == "job.expired"


async def test_a_job_that_ran_in_time_stays_approved_when_its_time_is_up(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    worker = await api.key("worker", "worker", "work")
    job = await api.submit(bot, expires_in="5m")
    await api.approve(job, ada)
    (claimed,) = (await api.call("POST", "jobs/claim", worker, {"topics": ["pay"]})).document["jobs"]
    await api.call("POST", f"jobs/{job}/complete", worker, {"fence": claimed["fence"], "result": None})
    api.clock.advance(300)

    again, against = await api.approve(job, ada), await api.reject(job, ada)

    assert (again.word, against.word) == ("already_approved", "already_approved")
    assert (again.status, against.status) == (200, 409)


async def test_a_released_job_expires_by_its_own_time(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot = await api.agent()
    job = await api.submit(bot, topic="read", expires_in="5m")
    api.clock.advance(300)

    await api.sweep()

    assert (await api.job(job))["state"] == "EXPIRED"


async def test_steps_open_to_more_groups_in_turn_and_are_announced_once_each(api: InProcessApi) -> None:
    await api.policy(STEPS)
    bot = await api.agent()
    lead = await api.person("lead", groups=("leads",))
    director = await api.person("director", groups=("board",))
    job = await api.submit(bot)

    assert (await api.approve(job, lead)).word == "not_eligible"
    api.clock.advance(600)
    await api.sweep()
    await api.sweep()
    assert (await api.approve(job, director)).word == "not_eligible"
    assert (await api.events(job)).count("approval.escalated") == 1
    api.clock.advance(1200)
    await api.sweep()
    assert (await api.events(job)).count("approval.escalated") == 2
    assert (await api.approve(job, director)).word == "approved"


async def test_a_step_is_open_by_the_clock_even_if_no_sweep_has_run(api: InProcessApi) -> None:
    await api.policy(STEPS)
    bot, lead = await api.agent(), await api.person("lead", groups=("leads",))
    job = await api.submit(bot)
    api.clock.advance(600)

    assert (await api.approve(job, lead)).word == "approved"


async def test_two_steps_missed_by_the_sweep_are_announced_together(api: InProcessApi) -> None:
    await api.policy(STEPS)
    bot = await api.agent()
    job = await api.submit(bot)
    api.clock.advance(1900)

    await api.sweep()
    await api.sweep()

    assert (await api.events(job)).count("approval.escalated") == 1
    assert (await api.job(job))["version"] == 2


async def test_where_expiry_escalates_the_last_groups_get_one_more_period(api: InProcessApi) -> None:
    await api.policy(STEPS_ESCALATING)
    bot, director = await api.agent(), await api.person("director", groups=("board",))
    in_time, late = await api.submit(bot), await api.submit(bot)

    api.clock.advance(3600)
    await api.sweep()
    assert (await api.job(in_time))["state"] == "APPROVAL"
    api.clock.advance(3599)
    assert (await api.approve(in_time, director)).word == "approved"
    api.clock.advance(1)
    assert (await api.approve(late, director)).word == "approval_expired"
    await api.sweep()
    assert (await api.job(late))["state"] == "EXPIRED"


async def test_where_expiry_escalates_a_long_lived_job_gets_no_more_than_one_more_period(
    api: InProcessApi,
) -> None:
    await api.policy(STEPS_ESCALATING)
    bot, director = await api.agent(), await api.person("director", groups=("board",))
    job = await api.submit(bot, expires_in="5h")
    api.clock.advance(2 * 3600)

    assert (await api.approve(job, director)).word == "approval_expired"


async def test_where_expiry_escalates_a_short_lived_job_announces_its_steps_in_time(
    api: InProcessApi,
) -> None:
    await api.policy(STEPS_ESCALATING.replace("expires_in: 1h", "expires_in: 2h"))
    bot = await api.agent()
    job = await api.submit(bot, expires_in="25m")
    api.clock.advance(24 * 60)
    await api.sweep()
    assert (await api.events(job)).count("approval.escalated") == 1

    api.clock.advance(60)
    await api.sweep()

    assert (await api.job(job))["state"] == "EXPIRED"


@pytest.mark.parametrize("policy", [HOUR, STEPS, STEPS_ESCALATING])
async def test_the_sweep_always_comes_to_rest(api: InProcessApi, policy: str) -> None:
    """Whatever is due is settled by the pass that finds it, so no pass repeats the one before."""
    await api.policy(policy)
    bot = await api.agent()
    job = await api.submit(bot)

    for _ in range(130):
        api.clock.advance(61)
        await api.sweep()
        version = (await api.job(job))["version"]
        await api.sweep()
        assert (await api.job(job))["version"] == version
    assert (await api.job(job))["state"] == "EXPIRED"


async def test_an_expired_request_can_be_asked_anew(api: InProcessApi) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    api.clock.advance(3600)
    await api.sweep()

    refreshed = await api.call("POST", f"approvals/{job}/refresh", ada, {})

    assert refreshed.document["state"] == "APPROVAL"
    assert refreshed.document["approval"]["round"] == 2
    assert refreshed.document["approval"]["expires_at"] == "2030-01-01T02:00:00Z"
    assert (await api.approve(job, ada)).word == "approved"


@pytest.mark.parametrize("swept", [False, True])
async def test_a_job_whose_own_time_is_up_cannot_be_asked_anew(api: InProcessApi, swept: bool) -> None:
    await api.policy(HOUR)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, expires_in="5m")
    api.clock.advance(300)
    if swept:
        await api.sweep()

    refused = await api.call("POST", f"approvals/{job}/refresh", ada, {})

    assert (refused.status, refused.word) == (409, "approval_expired")
    assert (await api.audit(job))[-1] == ("refresh_refused", "JobExpired")


LATE_STEP = """
version: v1
rules:
  - id: late
    when: {topic: pay}
    decision: require_human
    approval:
      groups: [desk]
      expires_in: 10m
      on_expiry: escalate
      escalate: [{after: 30m, groups: [leads]}]
"""


async def test_where_expiry_escalates_a_step_that_would_come_later_opens_at_once(api: InProcessApi) -> None:
    await api.policy(LATE_STEP)
    bot, lead = await api.agent(), await api.person("lead", groups=("leads",))
    job = await api.submit(bot)
    api.clock.advance(599)
    assert (await api.approve(job, lead)).word == "not_eligible"

    api.clock.advance(1)
    await api.sweep()

    assert (await api.events(job)).count("approval.escalated") == 1
    assert (await api.approve(job, lead)).word == "approved"
