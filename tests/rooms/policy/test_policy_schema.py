"""The JSON Schema of a policy gives the parser's verdict, but for what only a parser can see (`PARSER_ONLY`)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec.located import SourceInvalid, plain
from interlock.rooms.policy import parser
from interlock.rooms.policy.language import PolicyDocument, canonical_policy
from interlock.rooms.policy.parser import parse_policy, read_source
from tests.rooms.policy.policy_strategies import documents
from tests.rooms.policy.test_bad_policies import CORPUS
from tests.tidy.source import ROOT
from tools import schemas

SCHEMA = json.loads((schemas.FOLDER / "policy.schema.json").read_text())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
# Each is a question that a schema cannot ask: of the text, of an expression, of two values together, or of a sum.
PARSER_ONLY = re.compile(
    r"was already given on line|aliases are not read|the tag |a field name must be text|a second document|not YAML"
    r"|is already the rule on line|two steps open at the same time|this step would open only after"
    r"|out of range; use (1s|\d+[smhd]) to|is too many at once|cannot be seen"
    r"|\.if: (?!expected text|is empty|\d+ characters are too many)"
)
MORE = (
    "version: v1\nrules: [{id: a, decision: require_human, approval: {groups: ['  ']}}]",
    "version: v1\nrules: [{id: a, decision: require_human, approval: {escalate: [{after: 1h, groups: []}]}}]",
    "version: v1\nrules: [{id: a, decision: require_human, approval: {grace: 25h}}]",
    "version: v1\nrules: [{id: a, decision: throttle, throttle: {rate: 1000000/s}, then: allow}]",
    "version: v1\nrules: [{id: a, decision: throttle, throttle: {rate: 1000001/s}, then: allow}]",
    "version: v1\nrules: [{id: a, decision: throttle, throttle: {rate: 1/s}, then: allow, approval: {}}]",
    "version: v1\nrules: [{id: a, decision: throttle, throttle: {rate: 1/s}, then: require_human, approval: {}}]",
    "version: v1\nrules: [{id: a, decision: throttle, approval: {}}]",
    "version: v1\nrules: [{id: a, decision: allow, if: true}]",
    "version: v1\nrules: [{id: a, decision: allow, when: {topic: 'a b'}}]",
    "version: v1\nrules: [{id: a, decision: allow, when: {topic: [a.**, '**', pay*, '*']}}]",
    "version: v1\nrules: [{id: a, decision: deny, reason: " + "x" * (parser.REASON_MAX + 1) + "}]",
)


def errors_of(text: str, **options: Any) -> list[str]:
    """What the parser refuses."""
    try:
        parse_policy(text, **options)
    except SourceInvalid as invalid:
        return [str(error) for error in invalid.errors]
    return []


def agree(text: str, **options: Any) -> None:
    """Assert that the schema refuses every error that it could see, and nothing that the parser accepts."""
    errors = errors_of(text, **options)
    visible = [error for error in errors if not PARSER_ONLY.search(error)]
    try:
        document = plain(read_source(text, is_json=options.get("syntax") == "json").root)
    except SourceInvalid:  # not even a tree
        assert errors
        return
    refused = [f"{error.instance_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]
    assert refused or not visible, (text, visible)
    assert errors or not refused, (text, refused)


@pytest.mark.parametrize("name", CORPUS)
def test_a_mistake_is_found_by_both(name: str) -> None:
    agree(CORPUS[name][0])


@pytest.mark.parametrize("text", MORE)
def test_the_limits_are_the_same(text: str) -> None:
    agree(text)


def written_policies() -> Iterator[str]:
    """Every text in the tests that reads as a policy, and every policy that a page or an example shows."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "version: v1" in node.value:
                yield node.value
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")):
        if path.suffix in {".md", ".py", ".sh", ".yaml"}:
            yield from re.findall(r"^version: v1\n(?:.*\n)*?(?=EOT|```|\"\"\"|\Z)", path.read_text(), re.M)


def test_every_policy_of_the_tests_and_pages_is_judged_alike() -> None:
    written = set(written_policies())
    assert len([text for text in written if not errors_of(text)]) > 50
    for text in written:
        agree(text)


@given(documents())
def test_every_policy_that_can_be_written_is_accepted(document: PolicyDocument) -> None:
    assert not list(VALIDATOR.iter_errors(json.loads(canonical_policy(document))))


WORDS = (
    "",
    " ",
    "x",
    "allow",
    "throttle",
    "escalate",
    "0s",
    "5m",
    "1/s",
    "a..b",
    "**",
    "labels.",
    "labels.x",
    "v2",
)
OTHERS = (None, True, 0, 1, 51, -1, 100_001, 1.5, [], {}, ["a"], [1], {"after": "1h"}, [{"id": "z"}])
JUNK = st.sampled_from([*WORDS, *OTHERS]).map(deepcopy)  # what is put in may be damaged next
FIELDS = st.sampled_from(
    [
        "id",
        "when",
        "if",
        "decision",
        "approval",
        "throttle",
        "then",
        "reason",
        "groups",
        "key",
        "labels.x",
        "rules",
    ]
)


@given(documents(), st.data())
def test_a_policy_that_was_damaged_is_judged_alike(document: PolicyDocument, data: st.DataObject) -> None:
    policy = json.loads(canonical_policy(document))
    for _ in range(data.draw(st.integers(1, 2))):
        damage(policy, data)
    agree(json.dumps(policy), syntax="json")


def damage(value: Any, data: st.DataObject) -> None:
    """Replace, remove or add one thing somewhere below a value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys or data.draw(st.integers(0, 4)) == 0:
        if isinstance(value, dict):
            value[data.draw(FIELDS)] = data.draw(JUNK)
        else:
            value.append(data.draw(JUNK))
        return
    key = data.draw(st.sampled_from(keys))
    if isinstance(value[key], dict | list) and data.draw(st.booleans()):
        damage(value[key], data)
    elif data.draw(st.booleans()):
        value[key] = data.draw(JUNK)
    else:
        del value[key]


def test_a_field_of_the_parser_is_a_field_of_the_schema() -> None:
    fields = {name: set(each["properties"]) for name, each in SCHEMA["$defs"].items()}
    assert set(SCHEMA["properties"]) == set(parser._DOCUMENT)
    assert fields["rule"] == set(parser._RULE)
    assert fields["approval"] == set(parser._APPROVAL)
    assert fields["throttle"] == set(parser._THROTTLE)
    assert {*fields["when"], "labels.<name>"} == set(parser._WHEN)


def described(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of a schema, wherever it is declared."""
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            if schema.get("additionalProperties") is False or "$schema" in schema:
                yield f"{place}.{name}", field
        for key, each in schema.items():
            yield from described(each, f"{place}/{key}")
    elif isinstance(schema, list):
        for each in schema:
            yield from described(each, place)


@pytest.mark.parametrize("name", ["policy.schema.json", "interlock.schema.json"])
def test_an_editor_has_something_to_show_for_every_field(name: str) -> None:
    schema = json.loads((schemas.FOLDER / name).read_text())
    jsonschema_rs.meta.validate(schema)
    fields = dict(described(schema))
    assert len(fields) > 8
    for place, field in fields.items():
        assert field["description"].endswith("."), place


def test_the_schemas_are_those_that_make_docs_writes() -> None:
    for name, text in schemas.render().items():
        assert (Path(schemas.FOLDER) / name).read_text() == text, "run `make docs`"
