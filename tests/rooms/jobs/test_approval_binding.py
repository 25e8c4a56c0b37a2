"""An approval is bound to the policy that asked for it: to its letter, or to what it says of this job."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import Stage

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


async def test_strict_refuses_after_any_change_of_policy(stage: Stage) -> None:
    before = await stage.policy(policy("strict"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    after = await stage.policy(policy("strict", other="write"))

    refused = await stage.approve(job, ada)

    assert (refused.status, refused.word) == (409, "snapshot_changed")
    assert refused.document["submitted_under"] == before
    assert refused.document["current_snapshot"] == after
    assert "refresh" in refused.document["detail"]
    assert (await stage.job(job))["state"] == "APPROVAL"
    assert (await stage.audit(job))[-1] == ("approve_refused", "SnapshotChanged")


async def test_the_same_policy_put_again_changes_nothing(stage: Stage) -> None:
    await stage.policy(policy("strict"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy("# the same rules in other words\n" + policy("strict"))

    assert (await stage.approve(job, ada)).word == "approved"


async def test_a_policy_rolled_back_is_the_policy_that_asked(stage: Stage) -> None:
    before = await stage.policy(policy("strict"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(policy("strict", other="write"))
    await stage.call("POST", "policy/rollback", stage.admin, {"snapshot": before})

    assert (await stage.approve(job, ada)).word == "approved"


async def test_semantic_goes_on_while_the_policy_asks_the_same_of_this_job(stage: Stage) -> None:
    await stage.policy(policy("semantic"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(policy("semantic", other="write"))

    assert (await stage.approve(job, ada)).word == "approved"


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
async def test_semantic_refuses_if_decision_rule_or_requirements_differ(stage: Stage, changed: str) -> None:
    await stage.policy(policy("semantic"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(changed)

    refused = await stage.approve(job, ada)

    assert (refused.status, refused.word) == (409, "snapshot_changed")


async def test_semantic_goes_on_while_what_a_rate_lets_through_is_asked_about_alike(stage: Stage) -> None:
    rationed = policy("semantic").replace(
        "decision: require_human", "decision: throttle\n    throttle: {rate: 9/m}\n    then: require_human", 1
    )
    await stage.policy(rationed)
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(rationed.replace("topic: read", "topic: write"))

    assert (await stage.approve(job, ada)).word == "approved"


async def test_semantic_keeps_the_votes_that_were_given_before_the_change(stage: Stage) -> None:
    await stage.policy(policy("semantic", quorum=2))
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await stage.policy(policy("semantic", quorum=2, other="write"))

    assert (await stage.approve(job, bob)).word == "approved"


async def test_a_no_holds_whatever_the_policy_has_become(stage: Stage) -> None:
    await stage.policy(policy("strict"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    await stage.policy(policy("strict", decision="allow"))

    assert (await stage.reject(job, ada)).word == "rejected"


async def test_the_reviewer_is_shown_that_the_policy_moved(stage: Stage) -> None:
    await stage.policy(policy("strict"))
    bot, ada = await stage.agent(), await stage.person("ada")
    job = await stage.submit(bot)
    assert (await stage.get(f"approvals/{job}", ada))["drift"]["policy_changed"] is False

    await stage.policy(policy("strict", other="write"))

    assert (await stage.get(f"approvals/{job}", ada))["drift"]["policy_changed"] is True
