"""What a rule asks of people, as it is read: steps in the order of time, and groups that somebody can be in."""

from __future__ import annotations

import pytest

from interlock.kernel.codec.located import SourceInvalid
from interlock.rooms.policy.language import ApprovalRequirement
from interlock.rooms.policy.parser import parse_policy

DAY = 86_400


def asked_of_people(approval: str) -> ApprovalRequirement:
    """The requirement of a policy whose one rule has this `approval`."""
    policy = parse_policy(
        f"version: v1\nrules: [{{id: a, when: {{topic: t}}, decision: require_human, approval: {approval}}}]"
    )
    requirement = policy.rules[0].approval
    assert requirement is not None
    return requirement


def test_steps_are_kept_in_the_order_of_time() -> None:
    asked = asked_of_people(
        "{escalate: [{after: 3h, groups: c}, {after: 1h, groups: a}, {after: 2h, groups: b}]}"
    )
    assert [(step.after, step.groups) for step in asked.escalate] == [
        (3600, ("a",)),
        (7200, ("b",)),
        (10_800, ("c",)),
    ]


def test_a_step_may_come_after_an_expiry_that_escalates_and_not_after_one_that_denies() -> None:
    late = "expires_in: 1h, escalate: [{after: 366d, groups: a}]"
    assert asked_of_people(f"{{on_expiry: escalate, {late}}}").escalate[0].after == 366 * DAY
    with pytest.raises(SourceInvalid, match="before 'expires_in'"):
        asked_of_people(f"{{on_expiry: deny, {late}}}")


@pytest.mark.parametrize(
    ("approval", "problem"),
    [
        ("{groups: ['  ']}", "a group needs a name"),
        ("{escalate: [{after: 1h, groups: ['']}]}", "a group needs a name"),
        ("{escalate: [{after: 1h, groups: []}]}", "name the groups that may decide"),
    ],
)
def test_groups_that_nobody_can_be_in_are_refused(approval: str, problem: str) -> None:
    with pytest.raises(SourceInvalid) as refused:
        asked_of_people(approval)
    assert any(problem in str(error) for error in refused.value.errors)
