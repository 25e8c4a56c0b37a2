"""Settling doubts: an operator reports the outcome of a call, or resolves a conflict."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import Command, World
from interlock.rooms.conflicts.model import Conflict, FollowUp, Resolution, follow_up_of
from interlock.rooms.effects.model import (
    EFFECTS,
    NULL,
    Effect,
    EffectInProgress,
    EffectState,
    Outcome,
    id_of_call,
    job_of_call,
)
from interlock.rooms.effects.settlement import ResolveEffect, find_effect, resolve_effect
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.jobs.holds import is_lost, lose
from interlock.rooms.jobs.model import JOBS, TRANSITIONS, Job, JobState
from interlock.rooms.jobs.records import announce_job, find_job, record_change
from interlock.rooms.jobs.refusals import CallersOnly, NotActionable
from interlock.rooms.jobs.revisions import RefreshApproval
from interlock.rooms.jobs.rules import CancelJob, RetryJob
from interlock.rooms.leases.lines import EndLeaseInConflict, SettleLease
from interlock.rooms.leases.model import Lease, LeaseState


class ResolveDoubt(Command[Effect], frozen=True, kw_only=True):
    """Resolve any effect; if it is a gated call's, its job follows in the same decision."""

    resolution: ResolveEffect

    def reads(self) -> Reads:
        return self.resolution.reads() | self._job_reads()

    def more(self, world: World) -> Reads:
        return self.resolution.more(world)

    def decide(self, world: World) -> Effect:
        before = world.get(EFFECTS, self.resolution.caller.tenant, self.resolution.action_id)
        effect = self.resolution.decide(world)
        if before is not None and effect.version != before.version:
            _settle_job(world, self.resolution.caller, effect, self.resolution.result)
        return effect

    def _job_reads(self) -> Reads:
        job_id = job_of_call(self.resolution.action_id)
        return Reads(own=(JOBS.key(self.resolution.caller.tenant, job_id),)) if job_id else NOTHING


class ReconcileCall(Command[Job], frozen=True, kw_only=True):
    """Report what the remote side says about the caller's own call. Repeating it changes nothing."""

    caller: Caller
    job_id: str
    outcome: Outcome
    evidence: msgspec.Raw
    result: msgspec.Raw = NULL

    def reads(self) -> Reads:
        own = (
            JOBS.key(self.caller.tenant, self.job_id),
            EFFECTS.key(self.caller.tenant, id_of_call(self.job_id)),
        )
        return caller_reads(self.caller) | Reads(own=own)

    def decide(self, world: World) -> Job:
        require(world, self.caller, Role.SUBMIT)
        job = find_job(world, self.caller.tenant, self.job_id)
        if not job.is_call or job.submitted_by != self.caller.principal:
            raise CallersOnly(job.id, job.submitted_by)
        effect = find_effect(world, job.tenant, id_of_call(job.id))
        match effect.state_at(world.now):
            case EffectState.AMBIGUOUS:
                after = resolve_effect(world, effect, self.caller, self.outcome, self.evidence, self.result)
                return _settle_job(world, self.caller, after, self.result) or job
            case EffectState.IN_PROGRESS:
                left = (effect.expires_at - world.now).total_seconds()
                raise EffectInProgress(effect.id, effect.begun_by, effect.expires_at, left)
            case EffectState.COMMITTED | EffectState.FAILED:
                if effect.resolved is None or effect.resolved.outcome is not self.outcome:
                    raise NotActionable(job.id, job.state.value, "reconcile")
                return job


def _settle_job(world: World, by: Caller, effect: Effect, result: msgspec.Raw) -> Job | None:
    """Move the call's job on, as its effect was resolved; one that was cancelled meanwhile stays as it is."""
    job_id = job_of_call(effect.id)
    job = world.get(JOBS, effect.tenant, job_id) if job_id else None
    if job is None:
        return None
    if is_lost(job, world.now):
        job = lose(world, job)
    if job.state is not JobState.FAILED:
        return job
    happened = effect.state is EffectState.COMMITTED
    verb = "settle_done" if happened else "settle_not_done"
    fields: dict[str, Any] = {"result": msgspec.json.decode(result), "error": None} if happened else {}
    settled = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, verb],
        finished_at=world.now if happened else None,
        not_before=None if happened else world.now,
        updated_at=world.now,
        **fields,
    )
    stored = world.put(JOBS, settled)
    record_change(world, stored, by, verb, fence=job.fence)
    announce_job(world, stored, "job.succeeded" if happened else "job.retried", fence=job.fence)
    return stored


_Step = tuple[FollowUp, Command[Any]]


class Concerned(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a conflict affects, as they were read; deleted ones are left out."""

    jobs: tuple[Job, ...] = ()
    effect: Effect | None = None
    leases: tuple[Lease, ...] = ()


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How a conflict was settled, and who says so. `note` is the reason or evidence that each step records."""

    by: Caller
    resolution: Resolution
    note: str


def steps_of(conflict: Conflict, said: Settlement, concerned: Concerned, now: datetime) -> tuple[_Step, ...]:
    """The commands that carry the settlement out, for the records at `now`; each command checks them again."""
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
