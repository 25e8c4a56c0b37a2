"""Workflows as callers send and see them: definitions, and the progress of a run and its steps."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from interlock.api.admission_views import RunView
from interlock.api.audit import EntryView
from interlock.api.fields import Text, Topic, unseen_fault
from interlock.api.operations import Body
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import Fault
from interlock.rooms.workflows.model import Progress, Step, StepKind
from interlock.rooms.workflows.model import Workflow as Definition

StepId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_\-]+$(?!\n)")]


class RetryBody(Body, frozen=True, kw_only=True):
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3


class StepBody(Body, frozen=True, kw_only=True):
    """A `worker` step is a job on `topic`; an `approval` step asks people."""

    id: StepId
    kind: StepKind = StepKind.WORKER
    topic: Topic | None = None
    env: Text = ""
    depends_on: Annotated[list[StepId], msgspec.Meta(max_length=50)] = []
    retry: RetryBody = RetryBody()
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=30 * 86_400)] = 3600
    quorum: Annotated[int, msgspec.Meta(ge=1, le=50)] = 1
    groups: Annotated[list[Text], msgspec.Meta(max_length=50)] = []


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow; its steps as they can be sent again."""

    id: str
    steps: list[StepBody]
    defined_by: str
    defined_at: datetime
    version: int


class WorkflowsView(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WorkflowView]
    next_cursor: str | None = None


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    state: str
    depends_on: list[str]
    job_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    why: str


class RunWithSteps(RunView, frozen=True, kw_only=True):
    """A run with how far its steps have come; a run that is only a slot has none."""

    steps: list[StepView]


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a run and its jobs, oldest first."""

    items: list[EntryView]


def step_of(body: StepBody) -> Step:
    if reason := unseen_fault(body.env):
        raise invalid(Fault("/steps", f"the env of step {body.id} {reason}"))
    return Step(
        id=body.id,
        kind=body.kind,
        topic=body.topic or "",
        env=body.env,
        depends_on=tuple(body.depends_on),
        max_attempts=body.retry.max_attempts,
        timeout_seconds=body.timeout_seconds,
        quorum=body.quorum,
        groups=tuple(body.groups),
    )


def step_body(step: Step) -> StepBody:
    return StepBody(
        id=step.id,
        kind=step.kind,
        topic=step.topic or None,
        env=step.env,
        depends_on=list(step.depends_on),
        retry=RetryBody(max_attempts=step.max_attempts),
        timeout_seconds=step.timeout_seconds,
        quorum=step.quorum,
        groups=list(step.groups),
    )


def workflow_view(known: Definition) -> WorkflowView:
    return WorkflowView(
        id=known.id,
        steps=[step_body(step) for step in known.steps],
        defined_by=known.defined_by,
        defined_at=known.defined_at,
        version=known.version,
    )


def steps_view(progress: Progress | None) -> list[StepView]:
    if progress is None:
        return []
    kinds = {step.id: step for step in progress.definition}
    return [
        StepView(
            id=step.id,
            kind=kinds[step.id].kind.value,
            state=step.state.value,
            depends_on=list(kinds[step.id].depends_on),
            job_id=step.job_id,
            started_at=step.started_at,
            ended_at=step.ended_at,
            why=step.why,
        )
        for step in progress.steps
    ]
