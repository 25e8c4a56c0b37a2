"""Workflows, and how far a run has come with its steps."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from interlock.wire.admission import Run
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Body, Given, Text, Topic


class StepRetry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried."""

    max_attempts: int = 3


class WorkflowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step as it was defined, and can be sent again: a job on `topic`, or a question to people."""

    id: str
    kind: str = "worker"
    topic: str | None = None
    env: str = ""
    depends_on: tuple[str, ...] = ()
    retry: StepRetry = StepRetry()
    timeout_seconds: int = 3600
    quorum: int = 1
    groups: tuple[str, ...] = ()


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow; without steps, a run of it is only a slot."""

    id: str
    steps: tuple[WorkflowStep, ...] = ()
    defined_by: Given[str] = None
    defined_at: Given[datetime] = None
    version: Given[int] = None


class RunStep(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come with one step."""

    id: str
    kind: str
    state: str
    depends_on: tuple[str, ...] = ()
    job_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    why: str = ""


class RunWithSteps(Run, frozen=True, kw_only=True):
    """A run with how far its steps have come; a run that is only a slot has none."""

    steps: tuple[RunStep, ...] = ()


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a run and its jobs, oldest first."""

    items: tuple[AuditEntry, ...] = ()


StepId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_\-]+$(?!\n)")]


class StepRetryBody(Body, frozen=True, kw_only=True):
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3


class StepBody(Body, frozen=True, kw_only=True):
    """A `worker` step is a job on `topic`; an `approval` step asks people."""

    id: StepId
    kind: Literal["worker", "approval"] = "worker"
    topic: Topic | None = None
    env: Text = ""
    depends_on: Annotated[list[StepId], msgspec.Meta(max_length=50)] = []
    retry: StepRetryBody = StepRetryBody()
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=30 * 86_400)] = 3600
    quorum: Annotated[int, msgspec.Meta(ge=1, le=50)] = 1
    groups: Annotated[list[Text], msgspec.Meta(max_length=50)] = []


class DefineWorkflowBody(Body, frozen=True, kw_only=True):
    """Without steps, a run of the workflow is only a slot."""

    steps: Annotated[list[StepBody], msgspec.Meta(max_length=50)] = []


class RerunBody(Body, frozen=True, kw_only=True):
    from_step: StepId
