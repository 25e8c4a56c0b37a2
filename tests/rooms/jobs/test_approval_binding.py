"""An approval is bound to the policy that asked for it: to its letter, or to what it says of this job."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import InProcessApi

RULE = """
version: v1
rules:
  - id: {id}
    when: {{topic: pay}}
    decision: {decision}
{approval}
  - id: other
    when: {{topic: {other}}}
    decision: allow
"""


def policy(
    binding: str = "strict",
    *,
    rule: str = "ask",
    decision: str = "require_human",
    quorum: int = 1,
    expires_in: str = "24h",
    other: str = "read",
) -> str:
    wanted = f"{{binding: {binding}, quorum: {quorum}, expires_in: {expires_in}}}"
    approval = f"    approval: {wanted}" if decision == "require_human" else ""
    return RULE.format(id=rule, decision=decision, approval=approval, other=other)


async def test_strict_refuses_after_any_change_of_policy(api: InProcessApi) -> None:
    before = await api.policy(policy("strict"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    after = await api.policy(policy("strict", other="write"))

    refused = await api.approve(job, ada)

    assert (refused.status, refused.word) == (409, "snapshot_changed")
    assert refused.document["submitted_under"] == before
    assert refused.document["current_snapshot"] == after
    assert "refresh" in refused.document["detail"]
    assert (await api.job(job))["state"] == "APPROVAL"
    assert (await api.audit(job))[-1] == ("approve_refused", "SnapshotChanged")


async def test_the_same_policy_put_again_changes_nothing(api: InProcessApi) -> None:
    await api.policy(policy("strict"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy("# the same rules in other words\n" + policy("strict"))

    assert (await api.approve(job, ada)).word == "approved"


async def test_a_policy_rolled_back_is_the_policy_that_asked(api: InProcessApi) -> None:
    before = await api.policy(policy("strict"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(policy("strict", other="write"))
    await api.call("POST", "policy/rollback", api.admin, {"snapshot": before})

    assert (await api.approve(job, ada)).word == "approved"


async def test_semantic_goes_on_while_the_policy_asks_the_same_of_this_job(api: InProcessApi) -> None:
    await api.policy(policy("semantic"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(policy("semantic", other="write"))

    assert (await api.approve(job, ada)).word == "approved"


@pytest.mark.parametrize(
    "changed",
    [
        policy("semantic", rule="renamed"),
        policy("semantic", quorum=2),
        policy("semantic", expires_in="2h"),
        policy("strict"),
        policy("semantic", decision="allow"),
        policy("semantic", decision="deny"),
    ],
    ids=["rule", "quorum", "expiry", "binding", "allow", "deny"],
)
async def test_semantic_refuses_if_decision_rule_or_requirements_differ(
    api: InProcessApi, changed: str
) -> None:
    await api.policy(policy("semantic"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(changed)

    refused = await api.approve(job, ada)

    assert (refused.status, refused.word) == (409, "snapshot_changed")


async def test_semantic_goes_on_while_what_a_rate_lets_through_is_asked_about_alike(
    api: InProcessApi,
) -> None:
    rationed = policy("semantic").replace(
        "decision: require_human", "decision: throttle\n    throttle: {rate: 9/m}\n    then: require_human", 1
    )
    await api.policy(rationed)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(rationed.replace("topic: read", "topic: write"))

    assert (await api.approve(job, ada)).word == "approved"


async def test_semantic_keeps_the_votes_that_were_given_before_the_change(api: InProcessApi) -> None:
    await api.policy(policy("semantic", quorum=2))
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await api.policy(policy("semantic", quorum=2, other="write"))

    assert (await api.approve(job, bob)).word == "approved"


async def test_a_no_holds_whatever_the_policy_has_become(api: InProcessApi) -> None:
    await api.policy(policy("strict"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(policy("strict", decision="allow"))

    assert (await api.reject(job, ada)).word == "rejected"


async def test_the_reviewer_is_shown_that_the_policy_moved(api: InProcessApi) -> None:
    await api.policy(policy("strict"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    assert (await api.get(f"approvals/{job}", ada))["drift"]["policy_changed"] is False

    await api.policy(policy("strict", other="write"))

    assert (await api.get(f"approvals/{job}", ada))["drift"]["policy_changed"] is True
