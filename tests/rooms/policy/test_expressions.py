"""Expressions answer true or false, or say why not; what the library does not guard against, this does."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from interlock.rooms.policy.expressions import ExpressionInvalid, Facts, compile_expression
from interlock.rooms.policy.facts import Unanswered

DEFAULTS: dict[str, Any] = {
    "topic": "finance.payment.execute",
    "env": "production",
    "channel": "",
    "labels": {"team": "pay"},
    "risk": ["money"],
    "payload": {},
    "actor": {"id": "agent-7", "kind": "agent", "groups": ["ops"], "owner": "ann"},
    "tenant": "acme",
    "priority": "high",
}


def ask(expression: str, payload: Any = None, **given: Any) -> bool:
    facts = Facts({**DEFAULTS, "payload": {} if payload is None else payload, **given})
    return compile_expression(expression).holds(facts)


@pytest.mark.parametrize(
    "expression",
    [
        "topic == 'finance.payment.execute' && env == 'production' && channel == ''",
        "labels.team == 'pay' && has(labels.team) && !has(labels.other)",
        "'money' in risk && risk.exists(r, r.startsWith('mon'))",
        "actor.id == 'agent-7' && actor.kind == 'agent' && 'ops' in actor.groups && actor.owner == 'ann'",
        "tenant == 'acme' && priority == 'high'",
        "topic.matches('^finance[.]')",
        "timestamp('2026-03-01T12:00:00Z').getHours() == 12",
        "duration('90m') > duration('1h')",
    ],
)
def test_everything_about_a_job_can_be_asked(expression: str) -> None:
    assert ask(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "actor == 'agent-7' && actor != 'ann'",
        "'é☃😀' != actor &&\n  actor == 'agent-7'",
        "actor in ['agent-6', 'agent-7']",
        "actor == payload.who",
        "actor.startsWith('agent-') && actor.matches('^agent-[0-9]$')",
        "['agent-7'].exists(name, name == actor) && actor.groups.exists(g, g == 'ops' && actor == 'agent-7')",
        "[actor][0] + '!' == 'agent-7!'",
    ],
)
def test_an_actor_by_itself_is_its_name_as_in_when(expression: str) -> None:
    assert ask(expression, {"who": "agent-7"})


@pytest.mark.parametrize(
    "expression",
    [
        "'owner' in actor && actor['kind'] == 'agent' && has(actor.groups) && actor.exists(k, k == 'id')",
        "payload.names.exists(actor, actor == 'somebody else')",
        "'actor' + '.id' != actor",
    ],
)
def test_an_actor_used_as_a_map_stays_one(expression: str) -> None:
    assert ask(expression, {"names": ["somebody else"]})


@pytest.mark.parametrize(
    "expression",
    [
        "actor.owner == null",
        "null != actor.owner",
        "actor['owner'] == null || actor.kind == 'agent'",
        "actor == null",
        "payload.names.exists(name, name == 'x' && actor.groups != null)",
    ],
)
def test_what_an_actor_never_is_is_not_compared_with(expression: str) -> None:
    with pytest.raises(ExpressionInvalid, match="is never null"):
        compile_expression(expression)


def test_what_may_be_null_is_compared_with_it() -> None:
    assert ask(
        "payload.names.exists(actor, actor == null) && payload.none == null", {"names": [None], "none": None}
    )


@pytest.mark.parametrize("amount", [10_001, 10_001.0, 10_000.5, 1e15])
def test_a_number_is_compared_by_its_value_however_it_is_written(amount: float) -> None:
    assert ask("payload.amount_cents > 10000", {"amount_cents": amount})
    assert not ask("payload.amount_cents > 10000", {"amount_cents": 10_000.0})
    assert ask("payload.amount_cents == 10000", {"amount_cents": 10_000.0})


def test_one_number_has_one_type_however_it_is_written() -> None:
    for three in (3, 3.0):
        assert ask(
            "type(payload.n) == int && payload.n / 2 == 1 && payload.l[0] % 2 == 1",
            {"n": three, "l": [three]},
        )
    assert ask("type(payload.n) == double", {"n": 3.5})
    assert ask("double(payload.n) * 1.5 > 4.0", {"n": 3})


@pytest.mark.parametrize(
    ("payload", "present"), [({}, False), ({"x": None}, True), ({"x": {"y": 1}}, True), ({"y": 1}, False)]
)
def test_has_tells_whether_a_field_is_there(payload: Any, present: bool) -> None:
    assert ask("has(payload.x)", payload) is present


@pytest.mark.parametrize("payload", [[1, 2], "text", 7, True, {"deep": [{"er": [1]}]}])
def test_a_payload_may_be_any_json(payload: Any) -> None:
    assert ask("payload == payload", payload)


@pytest.mark.parametrize(
    ("expression", "payload", "why"),
    [
        (
            "payload.amount > 1",
            {},
            "there is no field payload.amount; send it, or have the rule test it with has()",
        ),
        ("labels.other == 'x'", {}, "there is no field labels.other;"),
        ("has(payload.a.b)", {}, "there is no field payload.a;"),
        ("payload.a.b > 1", {"a": {}}, "there is no field payload.a.b;"),
        ("payload.a.b > 1", {"a": [1]}, "payload.a is a list, so it has no field payload.a.b"),
        ("has(payload.a)", "text", "payload is a text, so it has no field payload.a"),
        ("payload['a b'] == 1", {}, 'there is no field payload["a b"];'),
        (
            "payload.l.all(i, i.amount > 1)",
            {"l": [{"amount": 2}, {}]},
            "there is no field payload.l[].amount;",
        ),
        ("payload.l.all(i, i > 1)", {"l": 5}, "payload.l is a whole number, not a list or an object"),
        ("payload.a && true", {"a": "x"}, "payload.a is a text"),
        ("payload.a > 1", {"a": "text"}, "the types do not fit: _>_(string, int64); convert"),
        ("payload.a * 1.5 > 1.0", {"a": 1}, "the types do not fit: _*_(int64, double); convert"),
        ("payload.a / 0 == 1", {"a": 1}, "divide by zero"),
        ("payload.a * 9007199254740991 * 9007199254740991 > 1", {"a": 9}, "integer overflow"),
        ("payload.l[5] == 1", {"l": [1]}, "Index error"),
        ("int(payload.a) == 1", {"a": "x"}, ""),
        ("timestamp(payload.a).getHours() == 1", {"a": "yesterday"}, "String to Timestamp conversion failed"),
        ("payload.a", {"a": 1}, "it gave something other than true or false"),
        ("payload.a", {"a": None}, "it gave something other than true or false"),
        ("payload.l.all(x, true)", {"l": [1] * 10_001}, "it looped more than 10,000 times"),
        ("payload.a == 1", {"a": 2**70}, "out of range"),
    ],
)
def test_an_expression_that_cannot_answer_says_why(expression: str, payload: Any, why: str) -> None:
    with pytest.raises(Unanswered) as caught:
        ask(expression, payload)
    assert str(caught.value).startswith(why) or why in str(caught.value)


def test_an_error_beside_the_point_does_not_matter() -> None:
    assert ask("payload.a == 1 || payload.absent > 1", {"a": 1})
    assert not ask("payload.absent > 1 && payload.a == 2", {"a": 1})


@pytest.mark.parametrize(
    "payload",
    [
        {"account": "trusted\0evil"},
        {"account\0x": "trusted"},
        {"account": ["trusted", {"x": "\0"}]},
        {"account": "\ud800"},
        {"account": "trusted", "x": "é\udfff"},
    ],
)
def test_a_text_that_the_library_would_misread_is_never_shown_to_it(payload: Any) -> None:
    with pytest.raises(Unanswered, match=r"U\+0000|surrogate pair"):
        ask("payload.account == 'trusted'", payload)


@pytest.mark.parametrize("payload", [{"a": object()}, {"a": {1, 2}}, {1: "a"}, {"a": b"bytes"}])
def test_only_json_is_shown_to_the_library(payload: Any) -> None:
    with pytest.raises(Unanswered):
        ask("true", payload)


def test_a_job_that_is_nested_too_deeply_is_refused() -> None:
    payload: Any = 1
    for _ in range(5000):
        payload = [payload]
    with pytest.raises(Unanswered, match="nested deeper"):
        ask("true", payload)


def test_null_answers_do_not_wear_out_none() -> None:
    program = compile_expression("payload.a")
    facts = Facts({**DEFAULTS, "payload": {"a": None}})
    before = sys.getrefcount(None)
    for _ in range(5000):
        with pytest.raises(Unanswered):
            program.holds(facts)
    assert sys.getrefcount(None) > before - 1000


@pytest.mark.parametrize("text", ["true // (", "true\n// x\n", "'(' == '('"])
def test_comments_and_brackets_in_text_end_where_they_should(text: str) -> None:
    assert ask(text)


@pytest.mark.parametrize("text", ["true) || (true", "true) ? false : (true", "true /* x"])
def test_an_expression_cannot_break_out_of_its_place(text: str) -> None:
    with pytest.raises(ExpressionInvalid):
        compile_expression(text)


def test_a_null_byte_in_an_expression_is_refused() -> None:
    with pytest.raises(ExpressionInvalid, match=r"U\+0000"):
        compile_expression("topic == 'a\0b'")
