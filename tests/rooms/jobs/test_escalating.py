"""What escalates when it expires opens every step then, however late the step would have come."""

from __future__ import annotations

from tests.harness.in_process_api import InProcessApi

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
