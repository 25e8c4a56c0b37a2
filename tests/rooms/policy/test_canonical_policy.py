"""A policy has one spelling, and what it is called depends on what it means alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.policy.evaluation import Budget, SnapshotAltered, compile_policy, compiled, evaluate
from interlock.rooms.policy.language import PolicyDocument, canonical_policy, snapshot_id
from interlock.rooms.policy.parser import Syntax, parse_policy
from tests.rooms.policy.policy_strategies import documents, requests


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
