"""A pin means the same on the command line and in the console."""

from __future__ import annotations

import pytest

from interlock.kernel.codec.pins import NotAPin, read_pin
from interlock.kernel.codec.strict import JsonRefused, JsonValue


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("repo=billing", "repo", "billing"),
        (" repo = billing ", "repo", "billing"),
        ('code="500"', "code", "500"),
        ("count=500", "count", 500),
        ("when=NaN", "when", "NaN"),
        ('filter={"max": 1}', "filter", {"exact": {"max": 1}}),
        ("amount_cents <= 500", "amount_cents", {"max": 500}),
        ("branch~fix/*", "branch", {"glob": "fix/*"}),
        ("a=b=c", "a", "b=c"),
    ],
)
def test_a_pin_is_a_path_a_sign_and_a_value(text: str, path: str, value: JsonValue) -> None:
    assert read_pin(text) == (path, value)


@pytest.mark.parametrize("text", ["repo", "=x", "a<5", "a<=five", "a<=true"])
def test_a_text_that_is_no_pin_is_refused(text: str) -> None:
    with pytest.raises(NotAPin):
        read_pin(text)


@pytest.mark.parametrize("value", ["9007199254740993", '{"a": 1, "a": 2}', "9" * 5000])
def test_a_value_that_cannot_be_kept_is_refused_and_not_taken_for_text(value: str) -> None:
    with pytest.raises(JsonRefused):
        read_pin(f"n={value}")
