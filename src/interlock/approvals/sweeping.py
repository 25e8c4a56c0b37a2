"""What time does to jobs: escalations announced, requests and jobs expired.

Decisions judge time by themselves; the sweep only tidies up and tells. Any number of servers may run it
at once: it owns what it picks and skips what others hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from interlock.approvals.model import Approval, ApprovalState
from interlock.approvals.recording import announce_job, record_change
from interlock.jobs.model import JOBS, TRANSITIONS, Job, JobState
from interlock.kernel.command import Command
from interlock.kernel.record import Kind, Pick, Reads, micros
from interlock.kernel.world import World


class DueJobs(Pick[Job], frozen=True, kw_only=True):
    """The jobs longest overdue for expiry or escalation."""

    @property
    def kind(self) -> Kind[Job]:
        return JOBS

    @property
    def query(self) -> str:
        return "approvals.due_jobs"

    def params(self, now: datetime) -> Mapping[str, int]:
        return {"now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        due = record.due_at()
        return due is not None and due <= now

    def sort_key(self, record: Job) -> Any:
        return (record.due_at(), record.tenant, record.id)


class SweepDueJobs(Command[int], frozen=True, kw_only=True):
    """Expire or escalate up to `most` overdue jobs; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(DueJobs(limit=self.most),))

    def decide(self, world: World) -> int:
        due = world.pick(DueJobs(limit=self.most))
        for job in due:
            _settle(world, job)
        return len(due)


def _settle(world: World, job: Job) -> None:
    approval = job.approval if job.state is JobState.APPROVAL else None
    undecided = approval is not None and approval.state_at(world.now) is ApprovalState.EXPIRED
    if undecided or job.is_over_at(world.now):
        _expire(world, job, approval)
    elif approval:
        _escalate(world, job, approval)


def _expire(world: World, job: Job, approval: Approval | None) -> None:
    if approval:
        approval = msgspec.structs.replace(approval, state=approval.after("expire"))
    changed = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "expire"],
        approval=approval or job.approval,
        updated_at=world.now,
    )
    stored = world.put(JOBS, changed)
    record_change(world, stored, None, "expire")
    announce_job(world, stored, "approval.expired" if approval else "job.expired")


def _escalate(world: World, job: Job, approval: Approval) -> None:
    opened = approval.steps_open_at(world.now)
    groups = approval.groups_at(world.now)
    announced = msgspec.structs.replace(approval, steps_announced=opened)
    stored = world.put(JOBS, msgspec.structs.replace(job, approval=announced, updated_at=world.now))
    record_change(world, stored, None, "escalate", groups=list(groups))
    announce_job(world, stored, "approval.escalated", groups=list(groups))
