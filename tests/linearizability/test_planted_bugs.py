"""The models accept what works and refuse what does not: each planted bug is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.soak import dose
from tests.linearizability.checker import check
from tests.linearizability.models import AdmissionModel, ApprovalModel, EffectModel, GrantModel, LeaseModel
from tests.linearizability.simulated_histories import play
from tests.linearizability.simulated_services import Gate, Lock, Payment, Tokens, Vote

SEEDS = dose(40)

ROOMS: dict[str, tuple[Callable[..., Any], Callable[[], Any], tuple[str, ...]]] = {
    "lease": (Lock, LeaseModel, ("grants twice", "fence goes back", "late renewal", "stale check")),
    "approval": (Vote, ApprovalModel, ("last one wins", "forgets")),
    "grant": (Tokens, lambda: GrantModel(Tokens.USES), ("one too many", "lost update")),
    "effect": (Payment, EffectModel, ("begins twice", "stale read")),
    "admission": (Gate, lambda: AdmissionModel(Gate.LIMIT), ("leaks a slot", "counts late")),
}
BUGS = [(room, bug) for room, (_, _, bugs) in ROOMS.items() for bug in bugs]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("lost", [0.0, 0.15])
def test_what_works_is_accepted_whatever_overlaps_and_gets_lost(room: str, lost: float) -> None:
    subject, model, _ = ROOMS[room]
    for seed in range(SEEDS):
        verdict = check(play(subject(), seed, lost=lost), model())
        assert verdict.holds, f"seed {seed}: {verdict.explain()}"


@pytest.mark.parametrize(("room", "bug"), BUGS)
def test_a_planted_bug_is_found_again_and_again(room: str, bug: str) -> None:
    subject, model, _ = ROOMS[room]
    found = sum(not check(play(subject(bug), seed, lost=0.0), model()).holds for seed in range(SEEDS))
    assert found >= max(1, SEEDS // 10)


@pytest.mark.parametrize(("room", "bug"), BUGS)
def test_lost_answers_do_not_hide_a_planted_bug_for_long(room: str, bug: str) -> None:
    subject, model, _ = ROOMS[room]
    assert any(not check(play(subject(bug), seed, lost=0.05), model()).holds for seed in range(SEEDS))
