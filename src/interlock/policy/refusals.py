"""Why the policy room says no."""

from __future__ import annotations

from interlock.kernel.refusal import Refusal


class PolicyUnavailable(Refusal):
    """The policy could not be evaluated within its budget, or not be read, so nothing is released."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(
            f"rule {rule!r} could not be evaluated ({why}); nothing was released. Correct the rule"
        )
        self.rule = rule
        self.why = why


class SnapshotUnusable(Refusal):
    """What is kept under a snapshot's id is not what was in force then, so it is not put in force again."""

    def __init__(self, snapshot: str) -> None:
        super().__init__(
            f"the stored text of {snapshot} was altered, so it is not put in force; activate the policy from its source"
        )


class SimulationTooLong(Refusal):
    """A candidate took too long to be held against so many jobs, so nothing is said of any of them."""

    def __init__(self, examined: int, asked: int, seconds: float) -> None:
        super().__init__(
            f"the candidate was held against {examined} of {asked} jobs in {seconds:g} s, which is all there is; "
            "ask about fewer with `last`, or make its expressions cheaper"
        )


class PolicyThrottled(Refusal):
    """Evaluated, and the rate is used up."""

    def __init__(self, rule: str, retry_after_seconds: float) -> None:
        super().__init__(f"rule {rule!r} allows no more for now; retry in {retry_after_seconds:.1f} s")
        self.rule = rule
        self.retry_after_seconds = retry_after_seconds
