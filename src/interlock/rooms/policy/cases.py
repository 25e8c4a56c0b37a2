"""Test cases of a policy: `given` a job, `expect` a decision.

    cases:
      - name: a large payment needs two people
        given: {topic: finance.payment.execute, env: production, payload: {amount_cents: 20000}}
        expect: {decision: require_human, rule: require-approval-prod-finance, quorum: 2}

A plain list of cases is accepted, and so is a plain decision: `expect: allow`. In `given`, only the topic is
required; the default actor is an agent called `tester`. In `expect`, only the decision is required, and fields that
are left out are not compared. `rule: null` expects that no rule matched. A throttle with a bucket is expected as
`decision: throttle`, and `then` says what follows within the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from interlock.kernel.codec.located import Mapping, Node, Scalar, SourceInvalid, decoded, kind_of, plain
from interlock.kernel.codec.located import Sequence as Listed
from interlock.rooms.policy.evaluation import (
    Actor,
    Budget,
    CompiledPolicy,
    Evaluation,
    ExpressionFailed,
    PolicyInput,
    evaluate,
)
from interlock.rooms.policy.language import Decision
from interlock.rooms.policy.parser import QUORUM_MAX, Reading, read_source

CASES_MAX = 2000

_CASE = ("name", "given", "expect")
_GIVEN = ("topic", "env", "channel", "labels", "risk", "payload", "actor", "tenant", "priority")
_ACTOR = ("id", "kind", "groups", "owner")
_EXPECT = ("decision", "rule", "quorum", "groups", "then")
_KINDS = ("agent", "worker", "person", "service")
_PRIORITIES = ("low", "normal", "high", "critical")
_TESTER = Actor(id="tester", kind="agent")
_NOBODY = PolicyInput(topic="", actor=_TESTER)


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a case expects. UNSET is not compared."""

    decision: Decision
    rule: str | msgspec.UnsetType | None = msgspec.UNSET
    quorum: int | msgspec.UnsetType = msgspec.UNSET
    groups: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    then: Decision | msgspec.UnsetType = msgspec.UNSET


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case, and the line on which it begins."""

    name: str
    line: int
    given: PolicyInput
    expect: Expectation


Outcome: TypeAlias = Literal["passed", "failed", "error"]


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a case went. `differences` say what was expected and what was decided; with `error`, what failed.

    `evaluation` carries the trail: each earlier rule with the reason it did not match.
    """

    case: Case
    outcome: Outcome
    differences: tuple[str, ...] = ()
    evaluation: Evaluation | None = None


def parse_cases(text: str | bytes) -> tuple[Case, ...]:
    """Read a file of cases, a list or a mapping with `cases`; raise `SourceInvalid` with every error."""
    source = read_source(decoded(text), is_json=None)
    reading = Reading(source)
    if isinstance(source.root, Listed):
        cases = _read_cases(reading, source.root, "cases")
    else:
        fields = reading.fields(source.root, "", ("cases",), required=("cases",))
        cases = reading.field(fields, "", "cases", partial(_read_cases, reading), ())
    if reading.errors:
        raise SourceInvalid(reading.errors)
    return cases


def run_cases(policy: CompiledPolicy, cases: Sequence[Case]) -> tuple[CaseResult, ...]:
    """Ask the policy about each case."""
    return tuple(_run(policy, case) for case in cases)


def _run(policy: CompiledPolicy, case: Case) -> CaseResult:
    try:
        evaluation = evaluate(policy, case.given, budget=Budget(), explain=True)
    except ExpressionFailed as failed:
        return CaseResult(case=case, outcome="error", differences=(str(failed),))
    differences = tuple(_differences(case.expect, evaluation))
    outcome: Outcome = "failed" if differences else "passed"
    return CaseResult(case=case, outcome=outcome, differences=differences, evaluation=evaluation)


def _differences(expect: Expectation, got: Evaluation) -> list[str]:
    asked = got.approval
    pairs: list[tuple[str, object, object]] = [
        ("decision", expect.decision.value, got.decision.value),
        ("rule", expect.rule, got.rule),
        ("quorum", expect.quorum, asked.quorum if asked else None),
        ("groups", expect.groups, asked.groups if asked else None),
        ("then", expect.then, got.then),
    ]
    return [
        f"{name}: expected {_shown(expected)}, got {_shown(found)}"
        for name, expected, found in pairs
        if expected is not msgspec.UNSET and expected != found
    ]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "none" if value is None else str(value)


def _read_cases(reading: Reading, node: Node, path: str) -> tuple[Case, ...]:
    if isinstance(node, Listed) and not node.items:
        reading.refuse(node, path, "there are no cases, so nothing would be tested; write at least one")
    return tuple(_read_case(reading, item, at) for at, item in reading.items(node, path, CASES_MAX))


def _read_case(reading: Reading, node: Node, path: str) -> Case:
    fields = reading.fields(node, path, _CASE, required=("given", "expect"))
    field = partial(reading.field, fields, path)
    line = reading.source.place_of(node.start).line
    return Case(
        name=field("name", reading.text, f"case on line {line}"),
        line=line,
        given=field("given", partial(_read_given, reading), _NOBODY),
        expect=field("expect", partial(_read_expect, reading), Expectation(decision=Decision.DENY)),
    )


def _read_given(reading: Reading, node: Node, path: str) -> PolicyInput:
    fields = reading.fields(node, path, _GIVEN, required=("topic",))
    field = partial(reading.field, fields, path)
    payload = fields.get("payload")
    return PolicyInput(
        topic=field("topic", reading.text, ""),
        tenant=field("tenant", reading.text, _NOBODY.tenant),
        env=field("env", reading.text, ""),
        channel=field("channel", reading.text, ""),
        labels=field("labels", partial(_read_labels, reading), {}),
        risk=field("risk", reading.texts, ()),
        payload=plain(payload.node) if payload else {},
        actor=field("actor", partial(_read_actor, reading), _TESTER),
        priority=field("priority", partial(reading.choice, options=_PRIORITIES), "normal"),
    )


def _read_labels(reading: Reading, node: Node, path: str) -> dict[str, str]:
    if not isinstance(node, Mapping):
        reading.refuse(node, path, f"expected a mapping of labels to texts, found {kind_of(node)}")
        return {}
    read = {name: reading.text(entry.node, f"{path}.{name}") for name, entry in node.entries.items()}
    return {name: value for name, value in read.items() if value is not None}


def _read_actor(reading: Reading, node: Node, path: str) -> Actor:
    fields = reading.fields(node, path, _ACTOR)
    field = partial(reading.field, fields, path)
    return Actor(
        id=field("id", reading.text, _TESTER.id),
        kind=field("kind", partial(reading.choice, options=_KINDS), _TESTER.kind),
        groups=field("groups", reading.texts, ()),
        owner=field("owner", reading.text, ""),
    )


def _read_expect(reading: Reading, node: Node, path: str) -> Expectation:
    decisions = partial(reading.choice, options=tuple(Decision))
    if isinstance(node, Scalar) and node.value is not None:
        return Expectation(decision=Decision(decisions(node, path) or Decision.DENY))
    fields = reading.fields(node, path, _EXPECT, required=("decision",))
    field = partial(reading.field, fields, path)
    then = field("then", decisions, None)
    rule = fields.get("rule")
    no_rule = rule is not None and isinstance(rule.node, Scalar) and rule.node.value is None
    return Expectation(
        decision=Decision(field("decision", decisions, Decision.DENY)),
        rule=None if no_rule else field("rule", reading.text, msgspec.UNSET),
        quorum=field("quorum", partial(reading.whole, low=1, high=QUORUM_MAX), msgspec.UNSET),
        groups=field("groups", reading.texts, msgspec.UNSET),
        then=Decision(then) if then else msgspec.UNSET,
    )
