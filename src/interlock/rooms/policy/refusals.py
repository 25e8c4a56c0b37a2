"""Why the policy room refuses a command, and how a decision of the policy is told."""

from __future__ import annotations

from interlock.kernel.refusal import Next, Refusal


class PolicyUnavailable(Refusal):
    """The policy could not be evaluated within its budget, or not be read, so nothing is released."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(
            f"rule {rule!r} could not be evaluated ({why}); nothing was released. Correct the rule"
        )
        self.rule = rule
        self.why = why


class PolicyMoved(Refusal):
    """The policy in force is not the one that the caller compared with, so nothing was put in force."""

    def __init__(self, expected: str, current: str) -> None:
        super().__init__(
            f"the policy in force is {current}, not {expected}; compare with that one, then put yours in force"
        )
        self.expected = expected
        self.current = current
        self.next = Next("get_policy", {})


class SnapshotUnusable(Refusal):
    """The policy stored under a snapshot's id was altered, so it is not put in force again."""

    def __init__(self, snapshot: str) -> None:
        super().__init__(
            f"the stored text of {snapshot} was altered, so it is not put in force; activate the policy from its source"
        )
        self.next = Next("put_policy", {})


class SimulationTooLong(Refusal):
    """Comparing a candidate with this many jobs took too long, so no result is shown for any of them."""

    def __init__(self, examined: int, asked: int, seconds: float) -> None:
        super().__init__(
            f"the candidate was compared with {examined} of {asked} jobs when its {seconds:g} s were over; "
            "compare it with fewer jobs, or make its expressions cheaper"
        )


class PolicyThrottled(Refusal):
    """Evaluated, and the rate is used up."""

    def __init__(self, rule: str, retry_after_seconds: float) -> None:
        super().__init__(f"rule {rule!r} allows no more for now; retry in {retry_after_seconds:.1f} s")
        self.rule = rule
        self.retry_after_seconds = retry_after_seconds


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


def denial(topic: str, rule: str | None, reason: str | None, *, has_rules: bool) -> tuple[str, Next]:
    """That the policy denies a topic and why, and the next step."""
    if not has_rules:
        return f"no rules are in force, so {topic} is denied; set a policy", Next("put_policy", {})
    said = f"the policy denies {topic} ({because(rule, reason)}); see what each rule says about it"
    return said, Next("evaluate_policy", {"topic": topic})
