"""What is wrong with a policy is said with its line and column, all of it at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.kernel.codec.located import ERRORS_MAX, TEXT_BYTES_MAX, SourceInvalid
from interlock.rooms.policy.parser import RULES_MAX, parse_policy


def errors_of(text: str | bytes, **options: object) -> list[str]:
    with pytest.raises(SourceInvalid) as caught:
        parse_policy(text, **options)  # type: ignore[arg-type]
    return [str(error) for error in caught.value.errors]


def corpus() -> dict[str, tuple[str, list[str]]]:
    """Policies from `bad_policies.txt`, each with the beginnings of all its errors."""
    kept = Path(__file__).with_name("bad_policies.txt").read_text()
    entries = re.findall(r"^===== (.+)\n((?:.*\n)*?)>>>>>\n((?:.+\n)*?)(?=\Z|=====)", kept, re.MULTILINE)
    return {name: (text, errors.splitlines()) for name, text, errors in entries}


CORPUS = corpus()


def test_the_corpus_is_read_whole() -> None:
    assert len(CORPUS) == Path(__file__).with_name("bad_policies.txt").read_text().count("===== ") > 70


@pytest.mark.parametrize("name", CORPUS)
def test_each_mistake_is_named_at_its_place(name: str) -> None:
    text, expected = CORPUS[name]
    found = errors_of(text)
    assert len(found) == len(expected), found
    for error, beginning in zip(found, expected, strict=True):
        assert error.startswith(beginning)


def rule_if(expression: str) -> str:
    """A policy whose one expression begins on line 5, column 9."""
    return f"version: v1\nrules:\n  - id: a\n    decision: allow\n    if: {expression}\n"


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("", "1:1: expected a mapping with 'version', 'mode', 'default' or 'rules', found nothing"),
        ("version: v1\nmode: \x07\n", "2:7: not YAML: "),
        ("version: v1\nrules: " + "[" * 40 + "]" * 40, "2:39: nested deeper than 32 levels"),
        ("version: v1\nrules: " + "[" * 100_000, "2:39: nested deeper than 32 levels"),
        (rule_if("(" * 50 + "true" + ")" * 50), "5:9: rules[0].if: nested deeper than 32 levels"),
        (rule_if("true && " * 600 + "true"), "5:9: rules[0].if: 4804 characters are too many; at most 4096"),
        (
            rule_if("'[topic]" + ".map(x, x + x)" * 25 + " == []'"),
            "5:10: rules[0].if: this could take longer",
        ),
    ],
)
def test_what_is_too_much_is_refused_at_its_place(text: str, beginning: str) -> None:
    [error] = errors_of(text)
    assert error.startswith(beginning)


def test_every_mistake_is_reported_at_once_from_the_top_down() -> None:
    text = (
        "version: v1\n"
        "mode: never\n"
        "rules:\n"
        "  - id: a\n"
        "    decision: allow\n"
        "    if: foo\n"
        "  - id: a\n"
        "    decision: require_human\n"
        "    approval: {quorum: 99, groups: [1]}\n"
        "extra: 1\n"
    )
    places = [error.split(": ")[0] for error in errors_of(text)]
    assert places == ["2:7", "6:9", "7:9", "9:24", "9:37", "10:1"]


def test_a_file_full_of_mistakes_reports_the_first_hundred() -> None:
    text = "version: v1\nrules:\n" + "  - {id: '', decision: x}\n" * 500
    assert len(errors_of(text)) == ERRORS_MAX


def test_too_many_rules_are_refused() -> None:
    rules = "".join(f"  - {{id: r{number}, decision: allow}}\n" for number in range(RULES_MAX + 1))
    assert errors_of(f"version: v1\nrules:\n{rules}") == [
        "3:3: rules: 1001 items are too many; at most 1000 are read"
    ]


def test_too_long_a_text_is_refused_before_it_is_read() -> None:
    text = "version: v1\n# " + "x" * TEXT_BYTES_MAX
    assert errors_of(text) == [f"1:1: {len(text)} bytes is too long; at most {TEXT_BYTES_MAX} are read"]


def test_bytes_that_are_not_utf8_are_refused_at_their_place() -> None:
    assert errors_of(b"version: v1\nmode: \xff\n") == ["2:7: this is not UTF-8; save the file as UTF-8"]


def test_a_byte_order_mark_does_not_shift_the_columns() -> None:
    assert errors_of("\ufeffversion: v2\n")[0].startswith("1:10: version")


def test_lines_that_end_in_carriage_returns_are_counted_once() -> None:
    assert errors_of("version: v1\r\nmode: never\r\n")[0].startswith("2:7: mode")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version": "v1",\n "mode": "never"}', "2:10: mode: expected 'enforce'"),
        (
            '{"version": "v1",\n "rules": [{"id": "a", "decision": "allow", "if": "foo"}]}',
            "2:52: rules[0].if: undecl",
        ),
        (
            '{"version": "v1", "mode": "enforce", "mode": "observe"}',
            "1:38: 'mode' was already given on line 1",
        ),
        ('{"version": "v1"} x', "1:19: not JSON: nothing may follow"),
        ('{"version": v1}', "1:13: not JSON: a value is needed"),
        ('{"version" "v1"}', "1:12: not JSON: ':' is needed"),
        ("{version: 1}", "1:2: not JSON: a field name in double quotes"),
        ('{"a": 1 "b": 2}', "1:9: not JSON: ',' is needed"),
        ('{"a": "\\x"}', "1:7: not JSON: a value is needed"),
        ('{"a": ' + "[" * 40, "1:39: not JSON: nested deeper"),
    ],
)
def test_json_mistakes_have_places_too(text: str, expected: str) -> None:
    assert errors_of(text, syntax="json")[0].startswith(expected)


def test_a_place_after_an_escape_is_the_start_of_the_expression() -> None:
    text = '{"version": "v1", "rules": [{"id": "a", "decision": "allow", "if": "topic == \\"x\\" && foo"}]}'
    assert errors_of(text, syntax="json")[0].startswith("1:68: rules[0].if: undeclared reference to 'foo'")
