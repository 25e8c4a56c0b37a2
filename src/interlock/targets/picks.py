"""Bounded choices of jobs by their target."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.jobs.model import JOBS, Job, JobState
from interlock.kernel.record import Kind, Params, Pick

WAITING = (JobState.APPROVAL, JobState.PENDING)


class JobsWaitingOn(Pick[Job], frozen=True, kw_only=True):
    """Jobs that have not run yet and are bound to another version of this target, oldest first. Only looked at."""

    tenant: str
    target: str
    current: str
    own: bool = False

    @property
    def kind(self) -> Kind[Job]:
        return JOBS

    @property
    def query(self) -> str:
        return "targets.jobs_waiting_on"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "target": self.target, "current": self.current}

    def matches(self, record: Job, now: datetime) -> bool:
        target = record.action.target
        return (
            record.tenant == self.tenant
            and target is not None
            and target.key == self.target
            and target.version is not None
            and target.version != self.current
            and record.state in WAITING
        )

    def sort_key(self, record: Job) -> Any:
        return record.id
