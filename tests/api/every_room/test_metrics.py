"""What the figures count: every outcome once, when it has committed."""

from __future__ import annotations

import itertools
from typing import Any

from interlock.kernel.storage import WriteConflict
from interlock.kernel.world import Changes
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.harness.in_process_api import ASK, InProcessApi

RICH = (
    ASK
    + """
  - {id: mail, when: {topic: mail}, decision: throttle, throttle: {rate: 1/h, burst: 1, key: tenant}, then: allow}
  - {id: odd, when: {topic: odd}, if: payload.missing, decision: allow}
"""
    + f'  - {{id: dear, when: {{topic: dear}}, if: "{COSTLY}", decision: allow}}\n'
)


async def test_submits_are_counted_by_what_the_policy_decided(api: InProcessApi) -> None:
    await api.policy(RICH)
    bot = await api.agent()
    for topic in ("pay", "pay", "read", "launch", "mail", "mail", "odd"):
        await api.propose(bot, topic=topic)
    await api.propose(bot, TOO_MUCH, topic="dear")

    counted = {
        decision: await api.metric(f'interlock_submits_total{{decision="{decision}"}}')
        for decision in ("require_human", "allow", "deny", "throttle")
    }

    assert counted == {"require_human": 2, "allow": 2, "deny": 2, "throttle": 1}
    assert await api.metric('interlock_http_problems_total{code="policy_throttled",status="429"}') == 1
    assert await api.metric('interlock_http_problems_total{code="policy_unavailable",status="503"}') == 1


async def test_approvals_are_counted_by_outcome_and_refusal(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    first, second, third = [await api.submit(bot) for _ in range(3)]
    await api.approve(first, ada)
    await api.approve(first, bob)
    await api.approve(first, bob)
    await api.reject(first, bob)
    await api.reject(second, bob)
    await api.approve(third, bot)
    await api.policy(RICH)
    await api.approve(third, ada)

    async def counted(verb: str, outcome: str) -> float:
        return await api.metric(f'interlock_approvals_total{{verb="{verb}",outcome="{outcome}"}}')

    assert await counted("approve", "approved") == 1
    assert await counted("approve", "already_approved") == 2
    assert await counted("reject", "already_approved") == 1
    assert await counted("reject", "rejected") == 1
    assert await counted("approve", "people_only") == 1
    assert await counted("approve", "snapshot_changed") == 1


async def test_a_repeat_is_counted_as_a_repeat_and_not_as_another_decision(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    for _ in range(3):
        seen = await api.propose(bot, idempotency_key="k")
    for _ in range(3):
        await api.call("POST", f"approvals/{seen.document['id']}/approve", ada, {}, idempotency_key="a")

    assert await api.metric('interlock_submits_total{decision="require_human"}') == 1
    assert await api.metric('interlock_approvals_total{verb="approve",outcome="approved"}') == 1
    assert await api.metric("interlock_idempotent_replays_total") == 4


async def test_an_attempt_is_counted_once_however_often_its_batch_is_decided(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot = await api.agent("bot", "submit,work")
    first, second = [await api.submit(bot, topic="read") for _ in range(2)]
    decided_twice(api)

    claimed = await api.call("POST", "jobs/claim", bot, {"topics": ["read"]}, idempotency_key="k")
    by_id = await api.call("POST", f"jobs/{second}/claim", bot, {}, idempotency_key="k")
    for job, fence in ((first, claimed.document["jobs"][0]["fence"]), (second, by_id.document["fence"])):
        path, body = f"jobs/{job}/complete", {"fence": fence, "result": 1}
        assert (await api.call("POST", path, bot, body, idempotency_key=job)).status == 200

    assert await api.metric('interlock_claims_total{outcome="claimed"}') == 2
    assert await api.metric('interlock_attempts_finished_total{outcome="succeeded"}') == 2


def decided_twice(api: InProcessApi) -> None:
    """Let another server be quicker with every batch, once, so that it is decided again."""
    store: Any = api.service.store
    write, is_beaten = store._write, itertools.cycle((True, False))

    def write_or_be_beaten(batch_id: str, changes: Changes) -> None:
        if next(is_beaten):
            raise WriteConflict("another server was quicker")
        write(batch_id, changes)

    store._write = write_or_be_beaten


async def test_what_an_observing_policy_would_have_done_is_counted(api: InProcessApi) -> None:
    await api.policy("mode: observe\n" + ASK.strip())
    await api.propose(await api.agent())

    assert await api.metric('interlock_submits_total{decision="require_human"}') == 1


async def test_batches_commits_and_the_queue_are_measured(api: InProcessApi) -> None:
    await api.policy(ASK)
    await api.submit(await api.agent())

    text = (await api.call("GET", "/metrics", "")).body.decode()

    assert await api.metric("interlock_batch_commands_count") > 0
    assert await api.metric("interlock_commit_seconds_count") > 0
    assert "interlock_queue_depth 0" in text
    assert 'interlock_batch_commands_bucket{le="256"}' in text
    assert "# TYPE interlock_commit_seconds histogram" in text
