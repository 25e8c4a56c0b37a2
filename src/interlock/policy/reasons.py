"""Why the policy decided as it did, in the words of whoever wrote it: the same from a service and its clients."""

from __future__ import annotations


def matched(rule: str) -> str:
    """The reason of a rule that gives none."""
    return f"rule {rule!r} matched"


def because(rule: str | None, reason: str | None) -> str:
    """Which rule it was, with the reason that its author gave; or that none matched."""
    if rule is None:
        return reason or "no rule matched"
    own = f": {reason}" if reason and reason != matched(rule) else ""
    return f"rule {rule}{own}"
