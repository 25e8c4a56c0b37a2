"""How much of a repeated test to run: `make test` takes one dose, `make soak` many."""

from __future__ import annotations

import os


def factor() -> float:
    """The soak factor, 1 unless INTERLOCK_SOAK says otherwise."""
    return float(os.environ.get("INTERLOCK_SOAK", "1"))


def dose(n: int) -> int:
    """`n` repetitions times the soak factor, and never fewer than one."""
    return max(1, round(n * factor()))
