"""Why a workflow cannot be defined, or a step not be rerun."""

from __future__ import annotations

from interlock.kernel.refusal import Refusal


class BadSteps(Refusal):
    def __init__(self, why: str) -> None:
        super().__init__(f"the steps make no workflow: {why}")


class StepNotRerunnable(Refusal):
    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"run {run_id} cannot be run again from there: {why}")
        self.state = "not_rerunnable"
