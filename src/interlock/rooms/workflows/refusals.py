"""Why a workflow cannot be defined, a step cannot be rerun, or a run cannot be completed or deleted."""

from __future__ import annotations

from interlock.kernel.refusal import Next, Refusal


class BadSteps(Refusal):
    def __init__(self, why: str) -> None:
        super().__init__(f"the steps make no workflow: {why}")


class StepNotRerunnable(Refusal):
    def __init__(self, run_id: str, state: str, why: str) -> None:
        super().__init__(f"run {run_id} cannot be run again from there: {why}")
        self.state = state


class RunUnderWay(Refusal):
    def __init__(self, run_id: str, state: str) -> None:
        super().__init__(
            f"run {run_id} is {state} and not over; cancel it, or wait for its end, then delete it"
        )
        self.next = Next("cancel_run", {"run_id": run_id})
        self.state = state


class StepsNotDone(Refusal):
    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} has steps and succeeds when they have; wait for them, or cancel or fail the run"
        )
        self.next = Next("get_run", {"run_id": run_id})
        self.state = "running"
