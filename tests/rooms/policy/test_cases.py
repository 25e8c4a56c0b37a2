"""A file of cases tests a policy as a test runner would."""

from __future__ import annotations

import pytest

from interlock.kernel.codec.located import SourceInvalid
from interlock.rooms.policy.cases import Case, CaseResult, Expectation, parse_cases, run_cases
from interlock.rooms.policy.evaluation import Actor, PolicyInput, compile_policy
from interlock.rooms.policy.language import Decision
from interlock.rooms.policy.parser import parse_policy
from tests.harness.costly_expression import COSTLY, TOO_MUCH
from tests.rooms.policy.test_contract_example import EXAMPLE

CASES = """\
cases:
  - name: a large payment needs two people
    given:
      topic: finance.payment.execute
      env: production
      payload: {amount_cents: 20000, lines: [1, 2.5, null, true, "x"]}
      actor: {id: bot, kind: agent, groups: [ops], owner: ann}
      labels: {team: pay}
      risk: money
      priority: high
    expect: {decision: require_human, rule: require-approval-prod-finance, quorum: 2, groups: [finance]}
  - given: {topic: knowledge.read}
    expect: {decision: allow}
  - name: anything else is denied by default
    given: {topic: other}
    expect: {decision: deny, rule: null}
  - name: mail draws from a bucket
    given: {topic: customer.notify, channel: external}
    expect: {decision: throttle, then: require_human, quorum: 1}
"""


def run(cases: str) -> tuple[CaseResult, ...]:
    return run_cases(compile_policy(parse_policy(EXAMPLE)), parse_cases(cases))


def test_cases_that_are_decided_as_written_pass() -> None:
    assert [result.outcome for result in run(CASES)] == ["passed"] * 4


def test_a_case_without_a_name_is_called_by_its_line() -> None:
    assert [case.name for case in parse_cases(CASES)][1] == "case on line 12"
    assert [case.line for case in parse_cases(CASES)] == [2, 12, 14, 17]


def test_a_case_that_is_decided_otherwise_says_how_and_why() -> None:
    [result] = run(
        "cases:\n- given: {topic: finance.payment.execute, env: production, payload: {amount_cents: 1}}\n"
        "  expect: {decision: require_human, rule: require-approval-prod-finance, quorum: 2}\n"
    )
    assert result.outcome == "failed"
    assert result.differences == (
        "decision: expected require_human, got deny",
        "rule: expected require-approval-prod-finance, got none",
        "quorum: expected 2, got none",
    )
    assert result.evaluation is not None
    assert result.evaluation.trail[1].why == "if: payload.amount_cents > 10000 was false"


def test_a_bare_list_of_cases_and_a_bare_decision_will_do() -> None:
    results = run(
        "- {given: {topic: knowledge.read}, expect: allow}\n- {given: {topic: other}, expect: allow}\n"
    )
    assert [result.outcome for result in results] == ["passed", "failed"]
    with pytest.raises(SourceInvalid, match=r"cases\[0\].expect: expected 'allow'"):
        parse_cases("- {given: {topic: a}, expect: permit}\n")


def test_a_case_whose_expression_fails_is_denied_and_says_why() -> None:
    given = "given: {topic: finance.payment.execute, env: production}"
    denied, asked = run(
        f"cases:\n- {given}\n  expect: {{decision: deny}}\n- {given}\n  expect: {{decision: require_human}}\n"
    )
    assert (denied.outcome, asked.outcome) == ("passed", "failed")
    for result in (denied, asked):
        assert result.evaluation is not None
        assert result.evaluation.failure is not None
        assert result.evaluation.failure.field == "payload.amount_cents"


def test_a_case_that_would_outlast_the_budget_is_an_error() -> None:
    policy = compile_policy(
        parse_policy(f'version: v1\nrules: [{{id: a, if: "{COSTLY}", decision: allow}}]\n')
    )
    case = Case(
        name="much",
        line=1,
        given=PolicyInput(topic="a", actor=Actor(id="bot"), payload=TOO_MUCH),
        expect=Expectation(decision=Decision.DENY),
    )
    [result] = run_cases(policy, [case])
    assert (result.outcome, "more than is left of the 5 s" in result.differences[0]) == ("error", True)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("", ["1:1: expected a mapping"]),
        ("case: []\n", ["1:1: case: unknown field 'case'; did you mean 'cases'?"]),
        ("cases:\n- given: {topic: a}\n", ["2:3: cases[0]: 'expect' is missing"]),
        (
            "cases:\n- given: {topic: a, paylod: 1}\n  expect: {decision: permit}\n",
            [
                "2:21: cases[0].given.paylod: unknown field 'paylod'; did you mean 'payload'?",
                "3:22: cases[0].expect.decision: expected 'allow'",
            ],
        ),
        (
            "cases:\n- given: {topic: a, actor: {kind: robot}, labels: {x: 1}}\n  expect: {decision: deny}\n",
            [
                "2:35: cases[0].given.actor.kind: expected 'agent'",
                "2:55: cases[0].given.labels.x: expected text",
            ],
        ),
    ],
)
def test_a_mistake_in_a_case_has_its_place(text: str, errors: list[str]) -> None:
    with pytest.raises(SourceInvalid) as caught:
        parse_cases(text)
    found = [str(error) for error in caught.value.errors]
    assert len(found) == len(errors), found
    assert all(one.startswith(other) for one, other in zip(found, errors, strict=True)), found


@pytest.mark.parametrize("text", ["cases: []\n", "[]\n"])
def test_a_file_without_cases_is_refused_for_it_would_always_pass(text: str) -> None:
    with pytest.raises(SourceInvalid, match="there are no cases"):
        parse_cases(text)
