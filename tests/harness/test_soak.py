"""A soak multiplies what a test repeats."""

from __future__ import annotations

import pytest

from tests.harness.soak import dose


@pytest.mark.parametrize(("factor", "expected"), [("1", 20), ("10", 200), ("0.1", 2), ("0.001", 1)])
def test_the_dose_follows_the_factor_and_is_never_nothing(
    monkeypatch: pytest.MonkeyPatch, factor: str, expected: int
) -> None:
    monkeypatch.setenv("INTERLOCK_SOAK", factor)
    assert dose(20) == expected
