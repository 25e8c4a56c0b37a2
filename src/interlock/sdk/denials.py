"""Why a job was denied, as its decision tells it."""

from __future__ import annotations

from interlock.policy import reasons
from interlock.sdk.models import Decision


def because(decision: Decision | None) -> str:
    """Which rule it was, and why; or that none matched."""
    return reasons.because(decision.rule, decision.reason) if decision else reasons.because(None, None)
