"""The policy language: rates, what a rule asks of people, and the one spelling of a policy, which names it."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec.located import SourceInvalid
from interlock.rooms.policy.evaluation import Budget, SnapshotAltered, compile_policy, compiled, evaluate
from interlock.rooms.policy.language import (
    ApprovalRequirement,
    PolicyDocument,
    Rate,
    canonical_policy,
    finest,
    parse_rate,
    snapshot_id,
)
from interlock.rooms.policy.parser import Syntax, parse_policy
from tests.rooms.policy.policy_strategies import documents, rates, requests


@given(documents(), st.sampled_from(["json", "yaml", "auto"]))
def test_reading_the_canonical_form_gives_the_same_policy(document: PolicyDocument, syntax: Syntax) -> None:
    spelled = canonical_policy(document)
    again = parse_policy(spelled, syntax=syntax)
    assert again == document
    assert canonical_policy(again) == spelled
    assert snapshot_id(again) == snapshot_id(document) == snapshot_id(spelled)


@given(documents())
def test_however_it_is_laid_out_a_policy_has_one_address(document: PolicyDocument) -> None:
    meaning: Any = json.loads(canonical_policy(document))
    block = yaml.safe_dump(meaning, allow_unicode=True, sort_keys=False)
    flow = yaml.safe_dump(meaning, default_flow_style=True, allow_unicode=False, width=40)
    escaped = json.dumps(meaning, indent=1, ensure_ascii=True)
    assert {snapshot_id(parse_policy(text)) for text in (block, flow, escaped)} == {snapshot_id(document)}


@given(documents(), requests)
def test_a_policy_decides_alike_before_and_after_it_was_stored(
    document: PolicyDocument, request: Any
) -> None:
    def said(policy: Any) -> object:
        try:
            return evaluate(policy, request, budget=Budget())
        except Exception as error:  # noqa: BLE001 - whatever it says, it must say it both times
            return str(error)

    stored = compiled(snapshot_id(document), canonical_policy(document))
    assert said(compile_policy(document)) == said(stored)


def one_rule(body: str) -> str:
    return f"rules: [{{id: a, {body}}}]"


FULL = "quorum: 1, self_approval: false, expires_in: 1d, on_expiry: deny, escalate: [], binding: strict"
SAME = [
    ("default: deny\nmode: enforce\nrules: []", ""),
    (one_rule("decision: allow, when: {env: prod}"), one_rule("decision: allow, when: {env: [prod, prod]}")),
    (one_rule("decision: allow, when: {env: [b, a]}"), one_rule("decision: allow, when: {env: [a, b]}")),
    (one_rule("decision: allow, when: {}"), one_rule("decision: allow")),
    (one_rule("decision: allow, if: ' true '"), one_rule("decision: allow, if: true")),
    (one_rule("decision: require_human"), one_rule("decision: require_human, approval: {expires_in: 24h}")),
    (
        one_rule("decision: require_human, approval: {expires_in: 86400s, groups: [y, x]}"),
        one_rule(f"decision: require_human, approval: {{{FULL}, groups: [x, y]}}"),
    ),
    (
        one_rule("decision: throttle, throttle: {rate: 600/h, burst: 10}, then: allow"),
        one_rule("decision: throttle, throttle: {rate: 10/m, key: tenant}, then: allow"),
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_means_the_same_is_spelled_the_same(one: str, other: str) -> None:
    first, second = (canonical_policy(parse_policy(f"version: v1\n{text}\n")) for text in (one, other))
    assert first == second


def test_the_order_of_rules_is_part_of_the_meaning() -> None:
    rules = ["{id: a, decision: allow}", "{id: b, decision: deny}"]
    texts = [f"version: v1\nrules: [{', '.join(order)}]" for order in (rules, rules[::-1])]
    assert len({snapshot_id(parse_policy(text)) for text in texts}) == 2


def test_a_stored_policy_that_was_altered_is_not_used() -> None:
    # A rule of its own: a policy that another test still uses is compiled already, and its text is not asked again.
    document = parse_policy("version: v1\nrules: [{id: altered-later, decision: deny}]\n")
    altered = canonical_policy(document).replace(b"deny", b"allow")
    with pytest.raises(SnapshotAltered):
        compiled(snapshot_id(document), altered)


def test_a_policy_is_compiled_once_while_it_is_in_use() -> None:
    document = parse_policy("version: v1\nrules: [{id: kept, decision: allow}]\n")
    first = compiled(snapshot_id(document), canonical_policy(document))
    assert compiled(snapshot_id(document), canonical_policy(document)) is first


def test_compiled_policies_that_are_not_used_are_let_go() -> None:
    def load(number: int) -> object:
        document = parse_policy(f"version: v1\nrules: [{{id: gone-{number}, decision: allow}}]\n")
        return compiled(snapshot_id(document), canonical_policy(document))

    first = load(0)
    for number in range(1, 70):
        load(number)
    assert load(0) is not first


def test_documents_cannot_be_changed() -> None:
    document = parse_policy("version: v1\n")
    with pytest.raises(AttributeError):
        document.rules = ()  # type: ignore[misc]
    assert msgspec.structs.replace(document) == document


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [("5/s", 5, 1), ("10/m", 10, 60), ("600/h", 600, 3600), ("1000000/d", 1_000_000, 86_400)],
)
def test_a_rate_is_a_count_and_a_period(text: str, count: int, seconds: int) -> None:
    rate = parse_rate(text)
    assert (rate.count, rate.period_seconds, str(rate)) == (count, seconds, text)


@pytest.mark.parametrize(
    "text",
    ["", "5", "/s", "5/", "0/s", "-1/s", "5/w", "5 /s", "5/s ", "1.5/s", "10000000/s", "\u0665/s", "5/min"],
)
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 5/s|from 1 to"):
        parse_rate(text)


@given(rates)
def test_the_finest_form_is_the_same_rate(rate: Rate) -> None:
    assert Fraction(finest(rate).count, finest(rate).period_seconds) == Fraction(
        rate.count, rate.period_seconds
    )
    assert finest(finest(rate)) == finest(rate)


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
