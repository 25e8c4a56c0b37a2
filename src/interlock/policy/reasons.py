"""Why the policy decided as it did, in the words of whoever wrote it: the same from a service and its clients."""

from __future__ import annotations

_EXPRESSION_SHOWN_MAX = 200


def matched(rule: str) -> str:
    """The reason of a rule that gives none."""
    return f"rule {rule!r} matched"


def failed_on(expression: str, why: str) -> str:
    """The reason of a denial where a rule's expression could not be answered about the request."""
    shown = (
        expression if len(expression) <= _EXPRESSION_SHOWN_MAX else expression[:_EXPRESSION_SHOWN_MAX] + "…"
    )
    return f"its expression {shown!r} failed on this request: {why}"


def because(rule: str | None, reason: str | None) -> str:
    """Which rule it was, with the reason that its author gave; or that none matched."""
    if rule is None:
        return reason or "no rule matched"
    own = f": {reason}" if reason and reason != matched(rule) else ""
    return f"rule {rule}{own}"


def denial(topic: str, rule: str | None, reason: str | None, *, has_rules: bool) -> str:
    """That the policy denies a topic, why, and the next step."""
    if not has_rules:
        return f"no rules are in force, so {topic} is denied; set a policy with PUT /api/v1/policy"
    return f"the policy denies {topic} ({because(rule, reason)}); see why with POST /api/v1/policy/evaluate"
