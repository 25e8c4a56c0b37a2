"""Whether a rule's `when` applies to a request.

All given fields must match; a field matches if any of its patterns does. Matching is by character and case-sensitive.

- `topic`: segments are separated by dots. `*` alone is exactly one segment; within a segment it is any run of
  characters but a dot. `**` is any number of segments, none included: `finance.**` matches `finance`,
  `finance.payment` and `finance.payment.execute`.
- `env`, `channel`, `actor`, `tenant`, `risk`, `labels.<name>`: `*` is any run of characters, dots included,
  and also none. An absent env or channel is the empty text, so `env: "*"` matches everything and `env: ""` matches
  its absence. An absent label matches no pattern; `labels.team: "*"` requires that it is there.
- `risk` matches if any of the job's risks does.

Each match takes time in proportion to the lengths of pattern and value; there is no backtracking.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import msgspec

from interlock.rooms.policy.language import PolicyInput, When

_SHOWN_MAX = 80
_TEXT_FIELDS = ("env", "channel", "actor", "tenant")

Test = Callable[[str], bool]


class Condition(msgspec.Struct, frozen=True):
    """One field of a `when`: whether a request meets it and, if not, why."""

    holds: Callable[[PolicyInput], bool]
    why_not: Callable[[PolicyInput], str]


def conditions_of(when: When) -> tuple[Condition, ...]:
    """Everything a `when` asks beside its topic."""
    texts = [_text(name, getattr(when, name)) for name in _TEXT_FIELDS if getattr(when, name)]
    labels = [_label(name, patterns) for name, patterns in sorted(when.labels.items())]
    risks = [_risk(when.risk)] if when.risk else []
    return (*texts, *labels, *risks)


def topics_test(patterns: tuple[str, ...]) -> Test:
    """Tell whether a topic matches any of the patterns; without a pattern every topic does."""
    return _any(patterns, topic_test) if patterns else lambda _topic: True


def topic_mismatch(patterns: tuple[str, ...], topic: str) -> str:
    """Why a topic that matches none of the patterns does not, in words."""
    return f"topic {_shown(topic)} {_unmatched(patterns)}"


def topic_test(pattern: str) -> Test:
    """Tell whether a topic matches one pattern."""
    if "*" not in pattern:
        return pattern.__eq__
    segments = tuple(None if part == "**" else _segment_test(part) for part in pattern.split("."))
    return lambda topic: _segments_match(segments, topic.split("."))


def text_test(pattern: str) -> Test:
    """Tell whether any other text matches one pattern."""
    if "*" not in pattern:
        return pattern.__eq__
    first, *middle, last = pattern.split("*")
    return lambda text: _runs_match(first, middle, last, text)


def topic_problem(pattern: str) -> str | None:
    """The error in a topic pattern, or None."""
    if not pattern:
        return "an empty topic matches nothing; write a topic, or '**' for every one"
    for part in pattern.split("."):
        if not part:
            return f"{pattern!r} has an empty segment; remove the extra dot"
        if "**" in part and part != "**":
            return f"{pattern!r}: '**' must stand alone between dots; use '*' within a segment"
    return "a topic has no white space" if any(character.isspace() for character in pattern) else None


def text_problem(pattern: str) -> str | None:
    """The error in a pattern for another field, or None."""
    return f"{pattern!r}: '**' is for topics; '*' matches any text here" if "**" in pattern else None


def _segment_test(part: str) -> Test:
    return bool if part == "*" else text_test(part)


def _segments_match(pattern: tuple[Test | None, ...], topic: list[str]) -> bool:
    """Match greedily; on a mismatch only the last `**` needs to take one more segment."""
    at = resume_pattern = resume_topic = 0
    position = 0
    has_any = False
    while position < len(topic):
        test = pattern[at] if at < len(pattern) else None
        if at < len(pattern) and test is None:
            has_any, resume_pattern, resume_topic = True, at + 1, position
            at += 1
        elif test is not None and test(topic[position]):
            at, position = at + 1, position + 1
        elif has_any:
            resume_topic += 1
            at, position = resume_pattern, resume_topic
        else:
            return False
    return all(test is None for test in pattern[at:])


def _runs_match(first: str, middle: list[str], last: str, text: str) -> bool:
    at, end = len(first), len(text) - len(last)
    if end < at or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _any(patterns: tuple[str, ...], test_of: Callable[[str], Test]) -> Test:
    exact = frozenset(pattern for pattern in patterns if "*" not in pattern)
    tests = tuple(test_of(pattern) for pattern in patterns if "*" in pattern)
    if not tests:
        return exact.__contains__
    return lambda text: text in exact or any(test(text) for test in tests)


def _text(name: str, patterns: tuple[str, ...]) -> Condition:
    read: Callable[[PolicyInput], str] = attrgetter("actor.id" if name == "actor" else name)
    matches = _any(patterns, text_test)
    return Condition(
        holds=lambda request: matches(read(request)),
        why_not=lambda request: f"{name} {_shown(read(request))} {_unmatched(patterns)}",
    )


def _label(name: str, patterns: tuple[str, ...]) -> Condition:
    matches = _any(patterns, text_test)

    def why_not(request: PolicyInput) -> str:
        if name not in request.labels:
            return f"label {name!r} is absent"
        return f"label {name!r} is {_shown(request.labels[name])}, which {_unmatched(patterns)}"

    return Condition(
        holds=lambda request: name in request.labels and matches(request.labels[name]), why_not=why_not
    )


def _risk(patterns: tuple[str, ...]) -> Condition:
    matches = _any(patterns, text_test)

    def why_not(request: PolicyInput) -> str:
        risks = ", ".join(_shown(risk) for risk in request.risk[:10])
        return f"risk {risks or 'is absent and'} {_unmatched(patterns)}"

    return Condition(holds=lambda request: any(matches(risk) for risk in request.risk), why_not=why_not)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")


def _unmatched(patterns: tuple[str, ...]) -> str:
    if len(patterns) == 1:
        return f"does not match {patterns[0]!r}"
    return f"matches none of {', '.join(repr(pattern) for pattern in patterns)}"
