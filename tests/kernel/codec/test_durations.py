"""Durations are read as people write them, and nothing else is guessed at."""

from __future__ import annotations

import msgspec
import pytest

from interlock.kernel.codec.durations import seconds_of
from interlock.wire.fields import DurationText

REFUSED = [
    "",
    "s",
    "30",
    "-1s",
    "1.5h",
    "1 h",
    "1H",
    "1w",
    "1h30m",
    " 1s",
    "1s\n",
    "\u0661s",
    "PT1H",
    "99999d",
]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("30s", 30),
        ("15m", 900),
        ("4h", 14_400),
        ("7d", 604_800),
        ("090s", 90),
        ("9999d", 863_913_600),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds
    assert msgspec.convert(text, DurationText) == text


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_and_the_refusal_shows_how(text: str) -> None:
    with pytest.raises(ValueError, match="30s, 15m, 4h or 7d"):
        seconds_of(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_request_field_refuses_exactly_what_cannot_be_read(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, DurationText)
