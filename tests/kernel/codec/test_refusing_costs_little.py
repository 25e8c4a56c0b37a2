"""A body that is refused must not cost more than one that is taken."""

from __future__ import annotations

import pytest

from interlock.kernel.codec import strict
from interlock.kernel.codec.strict import FAULTS_MAX, JsonRefused, parse


def test_once_enough_faults_are_found_no_further_number_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    fraction = strict._fraction

    def counted(text: str) -> int | float:
        judged.append(text)
        return fraction(text)

    monkeypatch.setattr(strict, "_fraction", counted)
    with pytest.raises(JsonRefused) as refused:
        parse(b"[" + b",".join([b"1e400"] * 10_000) + b"]")
    assert [fault.path for fault in refused.value.faults] == [f"/{n}" for n in range(FAULTS_MAX)]
    assert len(judged) == FAULTS_MAX


def test_what_comes_after_many_faults_is_still_held_to_the_grammar() -> None:
    with pytest.raises(JsonRefused, match="not JSON"):
        parse(b"[" + b",".join([b"1e400"] * 100) + b",oops]")
