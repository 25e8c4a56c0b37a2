"""The first rule that matches decides; what cannot be answered releases nothing."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest
from hypothesis import given

from interlock.rooms.policy.evaluation import (
    Actor,
    Budget,
    Evaluation,
    OverBudget,
    PolicyInput,
    compile_policy,
    evaluate,
    past_throttle,
    same_requirement,
)
from interlock.rooms.policy.expressions import compile_expression
from interlock.rooms.policy.facts import Extent
from interlock.rooms.policy.language import ApprovalRequirement, Decision, PolicyDocument
from interlock.rooms.policy.parser import parse_policy
from tests.rooms.policy.policy_strategies import documents, requests

AGENT = Actor(id="agent-7", kind="agent", owner="ann")


def ask(
    rules: str, *, budget: Budget | None = None, explain: bool = False, head: str = "", **given: Any
) -> Evaluation:
    policy = compile_policy(parse_policy(f"version: v1\n{head}\nrules:\n{indent(rules, '  ')}"))
    request = PolicyInput(**{"topic": "t", "actor": AGENT, **given})
    return evaluate(policy, request, budget=budget or Budget(), explain=explain)


@pytest.mark.parametrize(
    "expression",
    [
        "topic == 'mail.send'",
        "env == 'prod' && channel == 'external' && priority == 'high'",
        "labels.team == 'pay' && risk == ['money'] && payload.amount == 5",
        "actor.id == 'agent-7' && actor.kind == 'agent' && actor.owner == 'ann' && actor.groups == ['ops']",
    ],
)
def test_an_expression_sees_every_part_of_a_request(expression: str) -> None:
    given = {"topic": "mail.send", "env": "prod", "channel": "external", "labels": {"team": "pay"}}
    actor = Actor(id="agent-7", kind="agent", owner="ann", groups=("ops",))
    more = {"risk": ("money",), "payload": {"amount": 5}, "priority": "high", "actor": actor}
    assert ask(f'- {{id: a, if: "{expression}", decision: allow}}', **given, **more).rule == "a"


def test_whoever_has_no_owner_has_a_bucket_of_its_own() -> None:
    rule = "- {id: a, decision: throttle, throttle: {rate: 5/s, key: owner}, then: allow}"
    charges = [ask(rule, actor=Actor(id=name)).throttle for name in ("ann", "bob")]
    assert [charge and charge.bucket_id for charge in charges] == ["a/owner=ann", "a/owner=bob"]


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        "- {id: a, decision: deny, when: {env: x}}\n- {id: b, decision: allow}\n- {id: c, decision: deny}\n"
    )
    assert ask(rules).rule == "b"
    assert ask(rules, env="x").rule == "a"


def test_a_reason_that_is_written_is_the_one_that_is_given() -> None:
    assert ask("- {id: a, decision: deny, reason: not on Fridays}").reason == "not on Fridays"
    assert ask("- {id: a, decision: deny}").reason == "rule 'a' matched"


@pytest.mark.parametrize("default", ["allow", "deny", "require_human"])
def test_where_no_rule_matches_the_default_decides(default: str) -> None:
    answer = ask("[]", head=f"default: {default}")
    assert (answer.decision, answer.rule) == (Decision(default), None)
    assert answer.approval == (ApprovalRequirement() if default == "require_human" else None)


def test_a_policy_that_says_nothing_denies() -> None:
    assert ask("[]").decision is Decision.DENY


@given(documents(), requests)
def test_explaining_changes_nothing_but_the_trail(document: PolicyDocument, request: Any) -> None:
    policy = compile_policy(document)
    plain, explained = (_said(policy, request, explain=explain) for explain in (False, True))
    assert plain[:-1] == explained[:-1]
    if explained[1] is not None and explained[0] != "dear":
        position = [rule.id for rule in document.rules].index(str(explained[1]))
        assert [missed.rule for missed in explained[-1]] == [rule.id for rule in document.rules[:position]]


def _said(policy: Any, request: PolicyInput, *, explain: bool) -> tuple[Any, ...]:
    try:
        said = evaluate(policy, request, budget=Budget(), explain=explain)
    except OverBudget as dear:
        return ("dear", dear.rule, dear.why)
    asked = (said.approval, said.throttle, said.then, said.failure)
    return (said.decision, said.rule, said.reason, *asked, said.trail)


@pytest.mark.parametrize(
    "decision", ["allow", "deny", "require_human", "throttle, throttle: {rate: 1/m}, then: allow"]
)
@pytest.mark.parametrize("explain", [False, True])
def test_an_expression_that_fails_denies_and_no_later_rule_is_tried(decision: str, explain: bool) -> None:
    rules = (
        "- {id: before, decision: allow, when: {env: x}}\n"
        f"- {{id: a, decision: {decision}, if: payload.amount > 1}}\n- {{id: b, decision: allow}}\n"
    )
    said = ask(rules, explain=explain)
    assert (said.decision, said.rule, said.approval, said.throttle, said.then) == (
        Decision.DENY, "a", None, None, None,
    )  # fmt: skip
    assert said.failure is not None
    assert (said.failure.expression, said.failure.field) == ("payload.amount > 1", "payload.amount")
    assert said.failure.why.startswith("there is no field payload.amount;")
    assert said.reason == f"its expression 'payload.amount > 1' failed on this request: {said.failure.why}"
    assert [missed.rule for missed in said.trail] == (["before"] if explain else [])


@given(documents(), requests)
def test_nothing_is_released_by_an_expression_that_fails(document: PolicyDocument, request: Any) -> None:
    said = evaluate(compile_policy(document), request, budget=Budget())
    assert said.failure is None or (said.decision, said.then) == (Decision.DENY, None)


def test_an_expression_of_a_rule_that_does_not_apply_is_never_asked() -> None:
    rules = "- {id: a, decision: deny, when: {env: x}, if: payload.amount > 1}\n- {id: b, decision: allow}\n"
    assert ask(rules).rule == "b"
    assert ask(rules, explain=True).trail[0].why == "env '' does not match 'x'"


def test_a_job_that_no_expression_is_asked_about_is_not_even_looked_at() -> None:
    assert ask("- {id: a, decision: allow}", payload={"text": "\0"}).rule == "a"


TWO_REGEXES = (
    "- {id: a, decision: deny, if: \"payload.s.matches('^b+$')\"}\n"
    "- {id: b, decision: allow, if: \"payload.s.matches('^a+$')\"}\n"
)


def test_with_a_clock_an_expression_is_begun_only_if_there_is_time_left_for_it() -> None:
    readings = iter([100.0, 100.0, 104.999])
    with pytest.raises(OverBudget, match="more than is left of the 5 s") as caught:
        ask(TWO_REGEXES, payload={"s": "a" * 100_000}, budget=Budget(clock=lambda: next(readings)))
    assert caught.value.rule == "b"
    assert ask(TWO_REGEXES, payload={"s": "a" * 100_000}, budget=Budget(clock=lambda: 100.0)).rule == "b"


def test_without_a_clock_what_the_expressions_could_take_is_added_up() -> None:
    payload = {"s": "a" * 100_000}
    assert ask(TWO_REGEXES, payload=payload).rule == "b"
    with pytest.raises(OverBudget) as first:
        ask(TWO_REGEXES, payload=payload, budget=Budget(seconds=0.000_001))
    enough_for_one = (
        compile_expression("payload.s.matches('^b+$')").roughly(Extent(200_000, 100_000, 9)) * 1.5
    )
    with pytest.raises(OverBudget) as second:
        ask(TWO_REGEXES, payload=payload, budget=Budget(seconds=enough_for_one))
    assert (first.value.rule, second.value.rule) == ("a", "b")


def test_a_budget_can_be_used_for_any_number_of_evaluations() -> None:
    budget = Budget(seconds=0.05)
    for _ in range(20):
        assert ask(TWO_REGEXES, payload={"s": "a" * 100_000}, budget=budget).rule == "b"


def test_a_throttle_without_a_rate_always_throttles() -> None:
    answer = ask("- {id: a, decision: throttle}")
    assert (answer.decision, answer.throttle, answer.then) == (Decision.THROTTLE, None, None)
    assert past_throttle(answer) is answer


@pytest.mark.parametrize(
    ("key", "bucket_id"),
    [
        ("tenant", "a/tenant="),
        ("actor", "a/actor=agent-7"),
        ("owner", "a/owner=ann"),
        ("topic", "a/topic=mail.send"),
        ("env", "a/env=prod"),
        ("channel", "a/channel=external"),
        ("labels.team", "a/labels.team=pay"),
        ("labels.absent", "a/labels.absent="),
    ],
)
def test_a_bucket_is_named_by_its_rule_and_the_value_of_its_key(key: str, bucket_id: str) -> None:
    rule = f"- {{id: a, decision: throttle, throttle: {{rate: 5/s, key: {key}}}, then: allow}}"
    given = {"topic": "mail.send", "env": "prod", "channel": "external", "labels": {"team": "pay"}}
    answer = ask(rule, **given)
    assert answer.throttle is not None
    assert answer.throttle.bucket_id == bucket_id
    assert answer.throttle.throttle.burst == 5


def test_a_long_key_gives_a_short_and_stable_bucket_id() -> None:
    rule = "- {id: a, decision: throttle, throttle: {rate: 5/s, key: labels.x}, then: allow}"
    ids = {ask(rule, labels={"x": "y" * 5000 + end}).throttle.bucket_id for end in "ab" * 2}  # type: ignore[union-attr]
    assert len(ids) == 2
    assert all(len(bucket_id) < 100 for bucket_id in ids)


def test_past_the_throttle_the_decision_is_then() -> None:
    rule = "- {id: a, decision: throttle, throttle: {rate: 5/s}, then: require_human, approval: {quorum: 3}}"
    answer = past_throttle(ask(rule))
    assert (answer.decision, answer.then, answer.throttle) == (Decision.REQUIRE_HUMAN, None, None)
    assert answer.approval == ApprovalRequirement(quorum=3)


THROTTLED = "- {id: a, decision: throttle, throttle: {rate: 1/s}, then: require_human, approval: {quorum: 2}}"
HUMAN = "- {id: a, decision: require_human, approval: {quorum: 2}}"


@pytest.mark.parametrize(
    ("after", "same"),
    [
        (HUMAN, True),
        ("- {id: a, decision: require_human, approval: {quorum: 2}, reason: new words}", True),
        ("- {id: z, decision: deny, when: {env: x}}\n" + HUMAN, True),
        (THROTTLED, True),
        ("- {id: b, decision: require_human, approval: {quorum: 2}}", False),
        ("- {id: a, decision: require_human, approval: {quorum: 3}}", False),
        ("- {id: a, decision: require_human, approval: {quorum: 2, groups: x}}", False),
        ("- {id: a, decision: allow}", False),
        ("[]", False),
    ],
)
def test_a_requirement_is_the_same_if_decision_rule_and_approval_are(after: str, same: bool) -> None:
    assert same_requirement(ask(HUMAN), ask(after)) is same


def test_many_topics_do_not_make_a_policy_remember_them_all() -> None:
    policy = compile_policy(
        parse_policy("version: v1\nrules: [{id: a, decision: allow, when: {topic: a.*}}]")
    )
    for number in range(5000):
        request = PolicyInput(topic=f"a.{number}", actor=AGENT)
        assert evaluate(policy, request, budget=Budget()).rule == "a"
    assert len(policy._by_topic) <= 1024
