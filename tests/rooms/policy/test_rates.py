"""Rates are read as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from interlock.rooms.policy.language import Rate, finest, parse_rate
from tests.rooms.policy.policy_strategies import rates


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [("5/s", 5, 1), ("10/m", 10, 60), ("600/h", 600, 3600), ("1000000/d", 1_000_000, 86_400)],
)
def test_a_rate_is_a_count_and_a_period(text: str, count: int, seconds: int) -> None:
    rate = parse_rate(text)
    assert (rate.count, rate.period_seconds, str(rate)) == (count, seconds, text)


@pytest.mark.parametrize(
    "text",
    ["", "5", "/s", "5/", "0/s", "-1/s", "5/w", "5 /s", "5/s ", "1.5/s", "10000000/s", "\u0665/s", "5/min"],
)
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 5/s|from 1 to"):
        parse_rate(text)


@given(rates)
def test_the_finest_form_is_the_same_rate(rate: Rate) -> None:
    assert Fraction(finest(rate).count, finest(rate).period_seconds) == Fraction(
        rate.count, rate.period_seconds
    )
    assert finest(finest(rate)) == finest(rate)
