"""Sweeps of jobs: approvals expire, leases expire, and jobs of lost workers become available again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.world import Command, World
from interlock.rooms.jobs.holds import is_lost, lose
from interlock.rooms.jobs.model import (
    JOBS,
    TRANSITIONS,
    Approval,
    ApprovalState,
    Job,
    JobState,
    claims_topic,
)
from interlock.rooms.jobs.records import announce_job, record_change


class LostJobs(Pick[Job], frozen=True, kw_only=True):
    """The jobs whose leases ran out longest ago."""

    kind = JOBS
    query = "jobs.lost_jobs"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        return is_lost(record, now)

    def sort_key(self, record: Job) -> Any:
        return (record.lease_until, record.tenant, record.id)


class UnclaimedJobs(Pick[Job], frozen=True, kw_only=True):
    """The released jobs that should have been offered again longest ago."""

    kind = JOBS
    query = "jobs.unclaimed_jobs"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        at = record.offer_again_at
        return at is not None and at <= now

    def sort_key(self, record: Job) -> Any:
        return (record.offer_again_at, record.tenant, record.id)


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did."""

    count: int
    dead: int = 0
    ages_seconds: tuple[float, ...] = ()


class SweepLostLeases(Command[Swept], frozen=True, kw_only=True):
    """Settle up to `most` leases that ran out."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(LostJobs(limit=self.most),))

    def decide(self, world: World) -> Swept:
        settled = [lose(world, job) for job in world.pick(LostJobs(limit=self.most))]
        return Swept(count=len(settled), dead=sum(job.state is JobState.FAILED for job in settled))


class OfferUnclaimed(Command[Swept], frozen=True, kw_only=True):
    """Wake workers again for up to `most` released jobs that no worker claimed; the first time is audited."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(UnclaimedJobs(limit=self.most),))

    def decide(self, world: World) -> Swept:
        found = world.pick(UnclaimedJobs(limit=self.most))
        ages = tuple(_offer(world, job) for job in found)
        return Swept(count=len(found), ages_seconds=ages)


def _offer(world: World, job: Job) -> float:
    age = (world.now - (job.not_before or job.released_at)).total_seconds()
    stored = world.put(JOBS, msgspec.structs.replace(job, offered=job.offered + 1, offered_at=world.now))
    if job.offered == 0:
        record_change(world, stored, None, "replay", waiting_seconds=round(age))
    world.wake(claims_topic(job.tenant, job.action.topic))
    return age


class DueJobs(Pick[Job], frozen=True, kw_only=True):
    """The jobs longest overdue for expiry or escalation."""

    kind = JOBS
    query = "jobs.due_jobs"

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
