"""What a policy reads that a request may lack: warned of when it is read, with where and how to write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.policy.evaluation import Actor, Budget, PolicyInput, compile_policy, evaluate
from interlock.rooms.policy.expressions import compile_expression
from interlock.rooms.policy.parser import check_policy, parse_policy
from tests.harness.in_process_api import InProcessApi


def warned(expression: str) -> list[str]:
    """The fields that are warned of."""
    return [each.message.partition(" may be missing")[0] for each in compile_expression(expression).warnings]


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("payload.amount > 1", ["payload.amount"]),
        ("payload.a.b > 1 || payload.a.b < 5", ["payload.a.b"]),
        ("payload.a > 1 && payload.b > 1", ["payload.a", "payload.b"]),
        ("payload['a b'] == 1", ['payload["a b"]']),
        ("labels.team == 'x'", ["labels.team"]),
        ("labels['x-y'] == 'x'", ['labels["x-y"]']),
        ("has(payload.a) || payload.a > 1", ["payload.a"]),
        ("!has(payload.a) && payload.a > 1", ["payload.a"]),
        ("has(payload.a) ? true : payload.a > 1", ["payload.a"]),
        ("has(payload.a.b)", ["payload.a"]),
        ("has(payload.a) && payload.a.b > 1", ["payload.a.b"]),
        ("has(payload.l) && payload.l.all(i, i.n > 1)", ["i.n"]),
        ("payload.l[0].n > 1", ["payload.l"]),
        ("has(payload.x) && payload.x.exists(payload, payload.n > 1)", ["payload.n"]),
    ],
)
def test_a_field_that_is_read_without_a_test_is_warned_of(expression: str, fields: list[str]) -> None:
    assert warned(expression) == fields


@pytest.mark.parametrize(
    "expression",
    [
        "has(payload.a) && payload.a > 1",
        "payload.a > 1 && has(payload.a)",
        "!has(payload.a) || payload.a > 1",
        "!(has(payload.a) && topic == 'x') ? true : payload.a > 1",
        "has(payload.a) ? payload.a > 1 : false",
        "has(payload.a) && has(payload.a.b) && payload.a.b > 1",
        "(has(payload.a) || false) && true && topic == 'x' || actor.owner == '' && actor.kind == 'agent'",
        "'x-y' in labels && labels['x-y'] == 'x'",
        "has(payload.l) && payload.l.all(i, has(i.n) && i.n > 1)",
        "has(payload.l) && payload.l.filter(i, has(i.n)).size() > 1",
        "topic == 'a' && env != 'b' && risk.exists(r, r == 'c') && actor == 'bot'",
        "payload == {}",
    ],
)
def test_what_is_tested_first_or_always_there_is_not_warned_of(expression: str) -> None:
    assert warned(expression) == []


def test_a_field_that_no_actor_has_is_warned_of() -> None:
    [warning] = compile_expression("actor.team == 'x'").warnings
    assert warning.message.startswith(
        "actor has no field actor.team, so every request is denied; it has id, kind"
    )


def test_a_warning_has_its_line_and_column_and_says_how_to_write_it() -> None:
    text = "version: v1\nrules:\n  - id: a\n    decision: deny\n    if: topic == 'x' && payload.card.number > 1\n"
    [warning] = check_policy(text).warnings
    assert (warning.line, warning.column, warning.path) == (5, 25, "rules[0].if")
    assert warning.message == (
        "payload.card.number may be missing, and a request without it is denied; if that is not meant, write "
        "has(payload.card) && has(payload.card.number) && … (the rule does not match without it) or "
        "!(has(payload.card) && has(payload.card.number)) || … (it does)"
    )


@pytest.mark.parametrize(
    "expression", ["payload.a > 1", "payload['a b'] > 1", "payload.a.b > 1", "labels['x-y'] == 'z'"]
)
def test_both_ways_that_a_warning_names_are_free_of_warnings(expression: str) -> None:
    [warning] = compile_expression(expression).warnings
    advice = warning.message.partition("write ")[2]
    matching, _, other = advice.partition(" && … (the rule does not match without it) or ")
    assert warned(f"{matching} && {expression}") == []
    assert warned(f"{other.removesuffix(' || … (it does)')} || {expression}") == []


FIELDS = st.sampled_from(["a", "b"])
READS = FIELDS.map(lambda name: f"payload.{name} == 1")
TESTS = FIELDS.map(lambda name: f"has(payload.{name})")
CONDITIONS: st.SearchStrategy[str] = st.recursive(
    st.one_of(READS, TESTS, st.just("topic == 't'")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda each: f"({' '.join(each)})"),
        inner.map(lambda each: f"!{each}" if each.startswith(("(", "has")) else f"!({each})"),
        st.tuples(inner, inner, inner).map(lambda each: f"({each[0]} ? {each[1]} : {each[2]})"),
    ),
    max_leaves=8,
)


@given(CONDITIONS, st.dictionaries(FIELDS, st.integers(0, 2)))
def test_an_expression_without_a_warning_never_fails_for_a_missing_field(
    expression: str, payload: dict[str, Any]
) -> None:
    policy = compile_policy(
        parse_policy(f'version: v1\nrules: [{{id: r, decision: allow, if: "{expression}"}}]\n')
    )
    said = evaluate(policy, PolicyInput(topic="t", actor=Actor(id="bot"), payload=payload), budget=Budget())
    if said.failure is not None:
        assert said.failure.field in warned(expression)


async def test_putting_a_policy_in_force_answers_with_its_warnings(api: InProcessApi) -> None:
    text = "version: v1\nrules:\n  - {id: a, if: payload.amount > 1, decision: deny}\n"

    seen = await api.call("PUT", "policy", api.admin, text.encode())

    [warning] = seen.document["warnings"]
    assert (seen.status, warning["line"], warning["column"], warning["path"]) == (200, 3, 17, "rules[0].if")
    assert "has(payload.amount) && …" in warning["reason"]


async def test_evaluate_shows_the_rule_that_failed_and_why(api: InProcessApi) -> None:
    await api.policy(
        "version: v1\nrules:\n  - {id: first, when: {env: x}, decision: allow}\n"
        "  - {id: odd, if: payload.amount > 1, decision: allow}\n"
    )

    seen = await api.call("POST", "policy/evaluate", await api.agent(), {"topic": "pay"})

    told = seen.document
    assert (seen.status, told["decision"], told["rule"]) == (200, "deny", "odd")
    assert told["failure"]["field"] == "payload.amount"
    assert "there is no field payload.amount" in told["reason"]
    assert [missed["rule"] for missed in told["trail"]] == ["first"]


async def test_simulate_shows_which_jobs_a_rule_would_fail_on(api: InProcessApi) -> None:
    await api.policy("version: v1\ndefault: allow\nrules: [{id: no, when: {topic: no}, decision: deny}]\n")
    bot = await api.agent()
    for topic in ("pay", "no"):
        await api.propose(bot, {"other": 1}, topic)
    candidate = "version: v1\nrules: [{id: odd, if: payload.amount > 1, decision: allow}]\n"

    seen = await api.call("POST", "policy/simulate", api.admin, {"policy": candidate})

    changes = {change["topic"]: change for change in seen.document["changes"]}
    assert {topic: change["differs"] for topic, change in changes.items()} == {
        "pay": ["decision"], "no": ["failure"],
    }  # fmt: skip
    for change in changes.values():
        assert (change["after"]["decision"], change["after"]["rule"]) == ("deny", "odd")
        assert change["after"]["failure"]["field"] == "payload.amount"
