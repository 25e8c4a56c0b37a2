"""Definitions of workflows, the progress of each run, and the refusals of both.

A run keeps the definition that it started with: changing a workflow affects later runs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record
from interlock.kernel.refusal import Next, Refusal

STEPS_MAX = 50
# How long the slot of a run with steps lasts; whichever server looks at the run renews it.
SLOT = timedelta(days=1)


class StepKind(StrEnum):
    WORKER = "worker"
    APPROVAL = "approval"


class StepState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


TRANSITIONS: Mapping[tuple[StepState, str], StepState] = {
    (StepState.WAITING, "start"): StepState.RUNNING,
    (StepState.WAITING, "skip"): StepState.SKIPPED,
    (StepState.WAITING, "fail"): StepState.FAILED,
    (StepState.RUNNING, "succeed"): StepState.SUCCEEDED,
    (StepState.RUNNING, "fail"): StepState.FAILED,
    (StepState.RUNNING, "cancel"): StepState.CANCELLED,
}


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step: a job for a worker, or a question to people."""

    id: str
    kind: StepKind = StepKind.WORKER
    topic: str = ""
    env: str = ""
    depends_on: tuple[str, ...] = ()
    max_attempts: int = 3
    timeout_seconds: int = 3600
    quorum: int = 1
    groups: tuple[str, ...] = ()


class Workflow(Record, frozen=True, kw_only=True):
    """A definition. Without steps a run is only a slot, and its caller does the work."""

    steps: tuple[Step, ...] = ()
    defined_by: str
    defined_at: datetime


class StepRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of one step of a run."""

    id: str
    state: StepState = StepState.WAITING
    job_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    why: str = ""


class Progress(Record, frozen=True, kw_only=True):
    """A run's steps, and the definition they follow. The id is the run's.

    `continued_as` is the rerun that took over its approvals.
    """

    workflow: str
    definition: tuple[Step, ...]
    steps: tuple[StepRun, ...]
    is_over: bool = False
    continued_as: str | None = None

    def step(self, step_id: str) -> StepRun | None:
        return next((step for step in self.steps if step.id == step_id), None)


WORKFLOWS = Kind("workflow", Workflow, table="workflows")
PROGRESS = Kind(
    "run_progress",
    Progress,
    table="run_progress",
    columns=("is_over", "workflow"),
    values=lambda progress: (int(progress.is_over), progress.workflow),
)


def approval_topic(workflow: str, step_id: str) -> str:
    """The topic of an approval step's job, which no worker claims: it is done once it is decided."""
    return f"workflow.approval.{workflow}.{step_id}"


class BadSteps(Refusal):
    def __init__(self, why: str) -> None:
        super().__init__(f"these steps do not form a workflow: {why}")


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
