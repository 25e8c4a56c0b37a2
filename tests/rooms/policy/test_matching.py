"""Patterns in `when` match what they say, and take no longer than they should."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.policy.evaluation import Actor, PolicyInput
from interlock.rooms.policy.language import When
from interlock.rooms.policy.matching import conditions_of, text_test, topic_problem, topic_test, topics_test

ACTOR = Actor(id="agent-7")


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "a.B", "aXb"]),
        ("a.*", ["a.b", "a.c"], ["a", "a.", "a.b.c", "b.b"]),
        ("*", ["a"], ["", "a.b"]),
        ("**", ["", "a", "a.b.c"], []),
        ("a.**", ["a", "a.b", "a.b.c"], ["b", "ab", "ab.c"]),
        ("**.z", ["z", "a.z", "a.b.z"], ["a", "z.a"]),
        ("a.**.z", ["a.z", "a.b.z", "a.b.c.z"], ["a", "z", "a.b"]),
        ("a.**.b.**.c", ["a.b.c", "a.x.b.b.y.c"], ["a.c", "a.x.c"]),
        ("pay*.execute", ["pay.execute", "payment.execute"], ["pay.ment.execute", "p.execute"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
    ],
)
def test_a_topic_pattern_matches_by_segments(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [topic for topic in [*matching, *other] if topic_test(pattern)(topic)] == matching


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("prod", ["prod"], ["", "production", "Prod"]),
        ("prod*", ["prod", "production", "prod.eu"], ["pro", "xprod"]),
        ("*", ["", "a", "a.b"], []),
        ("", [""], ["a"]),
        ("*-eu-*", ["a-eu-b", "-eu-"], ["a-eu", "eu-b"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*ab*ab*", ["abab", "xabyabz"], ["ab", "aab", "xab"]),
    ],
)
def test_a_pattern_elsewhere_matches_by_characters(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    assert [text for text in [*matching, *other] if text_test(pattern)(text)] == matching


def test_a_list_matches_what_any_of_its_patterns_does() -> None:
    patterns = ("pay", "mail.*", "read.**")
    matching, other = ["pay", "mail.send", "read", "read.a.b"], ["pay.more", "mail", "send"]
    assert [topic for topic in [*matching, *other] if topics_test(patterns)(topic)] == matching
    assert [why_not(When(env=("dev", "prod*", "*eu")), env=env) for env in ("dev", "prod1", "eu")] == [[]] * 3


@pytest.mark.parametrize("pattern", ["", "a..b", "a.**b", "a b", "a.b\t", "\u2003"])
def test_a_topic_pattern_that_can_match_nothing_is_a_problem(pattern: str) -> None:
    assert topic_problem(pattern)
    assert topic_problem("a.**.b*") is None


def topic_regex(pattern: str) -> str:
    """The same meaning, by brute force: `**` with its dot may vanish."""
    parts = [
        r"(?:[^.]+(?:\.[^.]+)*)" if part == "**" else part.replace("*", "[^.]*")
        for part in pattern.split(".")
    ]
    choices = [[]]
    for part in parts:
        choices = [[*chosen, part] for chosen in choices] + (
            [list(c) for c in choices] if "(?:" in part else []
        )
    return "|".join(r"\.".join(chosen) for chosen in choices)


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "**", "a*", "*b"]), min_size=1, max_size=5).map(".".join),
    st.lists(st.sampled_from(["a", "b", "ab", "aab"]), min_size=1, max_size=6).map(".".join),
)
def test_topic_patterns_mean_what_a_search_of_every_way_says(pattern: str, topic: str) -> None:
    assert topic_test(pattern)(topic) == bool(re.fullmatch(topic_regex(pattern), topic))


@given(st.text("ab*", max_size=8).filter(lambda text: "**" not in text), st.text("ab.", max_size=10))
def test_text_patterns_mean_what_a_search_of_every_way_says(pattern: str, text: str) -> None:
    assert text_test(pattern)(text) == bool(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL)
    )


def test_a_pattern_made_to_backtrack_does_not() -> None:
    # Tried every way, this would not end; the hang guard of the run is the assertion.
    assert not topic_test(".".join(["**", "a"] * 40) + ".b")(".".join("a" * 400))
    assert not text_test("*a" * 60 + "*b")("a" * 5000)


def why_not(when: When, **given: object) -> list[str]:
    request = PolicyInput(topic="t", actor=ACTOR, **given)  # type: ignore[arg-type]
    return [condition.why_not(request) for condition in conditions_of(when) if not condition.holds(request)]


@pytest.mark.parametrize(
    ("when", "given", "reasons"),
    [
        (When(), {}, []),
        (When(env=("prod",)), {"env": "prod"}, []),
        (When(env=("prod",)), {}, ["env '' does not match 'prod'"]),
        (When(env=("dev", "prod*")), {"env": "stage"}, ["env 'stage' matches none of 'dev', 'prod*'"]),
        (When(env=("",)), {}, []),
        (When(channel=("x",)), {"channel": "y"}, ["channel 'y' does not match 'x'"]),
        (When(actor=("agent-*",)), {}, []),
        (When(actor=("ann",)), {}, ["actor 'agent-7' does not match 'ann'"]),
        (When(tenant=("default",)), {}, []),
        (When(tenant=("acme",)), {}, ["tenant 'default' does not match 'acme'"]),
        (When(labels={"team": ("pay",)}), {"labels": {"team": "pay"}}, []),
        (When(labels={"team": ("*",)}), {"labels": {"team": ""}}, []),
        (When(labels={"team": ("*",)}), {}, ["label 'team' is absent"]),
        (
            When(labels={"team": ("a",)}),
            {"labels": {"team": "b"}},
            ["label 'team' is 'b', which does not match 'a'"],
        ),
        (When(risk=("high", "money")), {"risk": ("low", "money")}, []),
        (When(risk=("high",)), {"risk": ("low", "new")}, ["risk 'low', 'new' does not match 'high'"]),
        (When(risk=("*",)), {}, ["risk is absent and does not match '*'"]),
        (When(env=("a",), channel=("b",)), {"env": "a", "channel": "b"}, []),
        (When(env=("a",), channel=("b",)), {"env": "a"}, ["channel '' does not match 'b'"]),
    ],
)
def test_every_field_that_is_given_must_match(
    when: When, given: dict[str, object], reasons: list[str]
) -> None:
    assert why_not(when, **given) == reasons


def test_a_rule_without_topics_applies_to_every_topic() -> None:
    assert topics_test(())("anything.at.all")
    assert not topics_test(("a", "b.*"))("c")


def test_a_long_value_is_cut_in_the_explanation() -> None:
    [reason] = why_not(When(env=("prod",)), env="x" * 5000)
    assert len(reason) < 150
