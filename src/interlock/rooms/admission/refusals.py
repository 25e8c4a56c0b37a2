"""Why a run was not admitted, or cannot be changed."""

from __future__ import annotations

from interlock.kernel.refusal import Fault, Next, Refusal

_WAIT_SECONDS = 30


class GateFull(Refusal):
    """Evaluated, and there is no room. `waiting` stand in line ahead of the caller."""

    def __init__(
        self,
        *,
        scope: str,
        workflow: str,
        active: int,
        limit: int,
        waiting: int,
        retry_after_seconds: float,
        is_line_full: bool = False,
    ) -> None:
        ahead = f", {waiting} waiting" if waiting else ""
        super().__init__(
            f"{active} of {limit} runs of {scope} are active{ahead}; wait in line, or retry in "
            f"{retry_after_seconds:.1f} s"
        )
        if not is_line_full:
            self.next = Next("start_run", {"workflow": workflow, "wait_seconds": _WAIT_SECONDS})
        self.scope, self.active, self.limit, self.waiting = scope, active, limit, waiting
        self.retry_after_seconds = retry_after_seconds
        self.is_line_full = is_line_full


class GateUnavailable(Fault):
    """The gate could not be evaluated. Nothing was created."""


class RunFenceStale(Refusal):
    def __init__(self, run_id: str, state: str) -> None:
        super().__init__(
            f"run {run_id} is {state}, and this fence does not hold it. Stop, and start a new run"
        )
        self.state = state


class RunOver(Refusal):
    def __init__(self, run_id: str, state: str, verb: str) -> None:
        super().__init__(f"run {run_id} is {state}, so there is nothing to {verb}; start a new run")
        self.state = state
