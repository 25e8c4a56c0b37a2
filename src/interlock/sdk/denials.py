"""Why the policy said no, in the words of whoever wrote it."""

from __future__ import annotations

from interlock.sdk.models import Decision


def because(decision: Decision | None) -> str:
    """Which rule it was, with the reason that its author gave; or that none matched."""
    reason = (decision.reason if decision else None) or ""
    if decision is None or decision.rule is None:
        return reason or "no rule matched"
    own = "" if reason in ("", f"rule {decision.rule!r} matched") else f": {reason}"
    return f"rule {decision.rule}{own}"
