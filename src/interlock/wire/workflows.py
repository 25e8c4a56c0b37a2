"""Workflows, and how far a run has come with its steps."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.wire.admission import Run
from interlock.wire.audit import AuditEntry
from interlock.wire.marks import Given


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
