"""What a conflict's resolution means for the jobs, the effect and the leases that it concerns, as commands."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.approvals.renewing import RefreshApproval
from interlock.codec.canonical import canonical
from interlock.conflicts.model import Conflict, FollowUp, Resolution, follow_up_of
from interlock.effects.model import Effect, Outcome
from interlock.effects.resolving import ResolveEffect
from interlock.identity.model import Caller
from interlock.jobs.call_settling import ResolveDoubt
from interlock.jobs.finishing import RetryJob
from interlock.jobs.model import Job
from interlock.jobs.rules import CancelJob
from interlock.kernel.command import Command
from interlock.leases.model import Lease, LeaseState
from interlock.leases.settling import EndLeaseInConflict, SettleLease

_Step = tuple[FollowUp, Command[Any]]


class Concerned(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a conflict affects, as they were read; what is gone is not among them."""

    jobs: tuple[Job, ...] = ()
    effect: Effect | None = None
    leases: tuple[Lease, ...] = ()


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How somebody says that a conflict was settled. `note` is the reason or evidence that each step records."""

    by: Caller
    resolution: Resolution
    note: str


def steps_of(conflict: Conflict, said: Settlement, concerned: Concerned, now: datetime) -> tuple[_Step, ...]:
    """What the settlement sets in motion for records as they stand at `now`; each command checks that again."""
    effect = concerned.effect
    steps = (
        *(_about_job(conflict, said, job, now) for job in concerned.jobs),
        _about_effect(conflict, said, effect, now) if effect else None,
        *(_about_lease(conflict, said, lease, now) for lease in concerned.leases),
    )
    return tuple(step for step in steps if step is not None)


def _about_job(conflict: Conflict, said: Settlement, job: Job, now: datetime) -> _Step | None:
    follow_up = follow_up_of(conflict.kind, said.resolution, "job", job.state_at(now).value)
    if follow_up is None:
        return None
    if follow_up is FollowUp.RETRY_JOB:
        return follow_up, RetryJob(caller=said.by, job_id=job.id, reason=said.note)
    if follow_up is FollowUp.ASK_AGAIN:
        return follow_up, RefreshApproval(caller=said.by, job_id=job.id, submitter=job.submitted_by)
    return follow_up, CancelJob(caller=said.by, job_id=job.id, reason=said.note)


def _about_effect(conflict: Conflict, said: Settlement, effect: Effect, now: datetime) -> _Step | None:
    follow_up = follow_up_of(conflict.kind, said.resolution, "effect", effect.state_at(now).value)
    if follow_up is None or not conflict.has_seen(effect.begun_at):
        return None
    evidence = msgspec.Raw(canonical({"conflict": conflict.id, "note": said.note}))
    outcome = Outcome.NOT_COMMITTED
    resolution = ResolveEffect(caller=said.by, action_id=effect.id, outcome=outcome, evidence=evidence)
    return follow_up, ResolveDoubt(resolution=resolution)


def _about_lease(conflict: Conflict, said: Settlement, lease: Lease, now: datetime) -> _Step | None:
    follow_up = follow_up_of(conflict.kind, said.resolution, "lease", LeaseState.CONFLICT_DETECTED)
    if follow_up is None or not lease.is_in_conflict_at(now, conflict.id):
        return None
    command = EndLeaseInConflict if follow_up is FollowUp.END_LEASE else SettleLease
    return follow_up, command(
        caller=said.by, lease_id=lease.id, resource=lease.resource, conflict_id=conflict.id
    )
