"""The audit entries, events and wake-ups that jobs and approvals write."""

from __future__ import annotations

from typing import Any

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal, Unreadable
from interlock.kernel.world import World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import record_repeat, repeat_reads
from interlock.rooms.events.model import EventType, announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.refusals import Forbidden, NotFound, PeopleOnly
from interlock.rooms.identity.rules import identify
from interlock.rooms.jobs.model import ADVANCE_TOPIC, JOBS, Job, JobState, claims_topic, job_topic
from interlock.rooms.jobs.refusals import DecisionRefused, FenceStale
from interlock.rooms.policy.refusals import PolicyThrottled, PolicyUnavailable

# Refusals of decisions that are audited: an attempt matters, whatever stopped it.
DECISION_REFUSALS = (DecisionRefused, PeopleOnly, Forbidden, PolicyThrottled, PolicyUnavailable, Unreadable)


def find_job(world: World, tenant: str, job_id: str) -> Job:
    """The job, or `NotFound`, also for a job of another tenant."""
    job = world.get(JOBS, tenant, job_id)
    if job is None:
        raise NotFound("job", job_id)
    return job


def refused_job(world: World, tenant: str, job_id: str, refusal: Refusal) -> Job | None:
    """The job that a refusal is about, if there is one that can be read."""
    return None if isinstance(refusal, Unreadable) else world.get(JOBS, tenant, job_id)


def record_change(world: World, job: Job, by: Caller | None, action: str, **details: Any) -> None:
    """Audit a change of a job: who, what, which version, which rule, which hash, which request."""
    note(
        world,
        by or Author(tenant=job.tenant),
        action,
        job.id,
        subject_version=job.version,
        rule=job.verdict.rule,
        subject_hash=job.job_hash,
        details={"state": job.state.value, **{name: value for name, value in details.items() if value}},
    )


def record_refusal(world: World, by: Caller, action: str, job_id: str, refusal: Refusal) -> None:
    """Audit that a decision was refused, and why, as fully as one that was made."""
    job = refused_job(world, by.tenant, job_id, refusal)
    _note_refused(world, by, action, job_id, job, type(refusal).__name__, detail=refusal.detail)


def announce_job(world: World, job: Job, event_type: EventType, **data: Any) -> None:
    """Announce a change: as an event, to callers waiting for this job, and to workers if it may now run."""
    mention_job(world, job, event_type, **data)
    world.wake(job_topic(job.tenant, job.id))
    if job.run_id is not None:
        world.wake(ADVANCE_TOPIC)
    if job.state is JobState.PENDING and not job.is_call:
        world.wake(claims_topic(job.tenant, job.action.topic))


def mention_job(world: World, job: Job, event_type: EventType, **data: Any) -> None:
    """Announce, as an event alone, what changes nothing about a job: nobody who waits for it is woken."""
    facts: dict[str, Any] = {
        "job_id": job.id,
        "state": job.state.value,
        "topic": job.action.topic,
        "job_hash": job.job_hash,
        "version": job.version,
    }
    announce(world, job.tenant, event_type, job.id, {**facts, **data})


def find_own_job(world: World, caller: Caller, job_id: str) -> Job:
    """A job that the caller submitted, or any if it operates the tenant; else `Forbidden`."""
    principal = identify(world, caller)
    job = find_job(world, caller.tenant, job_id)
    if not {Role.OPERATE, Role.ADMIN} & set(principal.roles) and principal.id != job.submitted_by:
        raise Forbidden(principal.id, (Role.OPERATE,))
    return job


def stale_fence_reads(world: World, by: Caller, job_id: str, fence: int) -> Reads:
    """The records for a stale fence, if this one looks stale; a current holder loads nothing more."""
    job = world.get(JOBS, by.tenant, job_id)
    if job is None:
        return NOTHING
    lease = job.lease if job.lease_until and job.fence == fence else None
    holds = lease is not None and lease.worker == by.principal and world.now < lease.expires_at
    return NOTHING if holds else repeat_reads(_repeat(by, job))


def record_stale_fence(world: World, by: Caller, verb: str, stale: FenceStale) -> None:
    """Audit a call whose fence no longer holds, and keep the collision for review. The call changes nothing else."""
    job = world.get(JOBS, by.tenant, stale.job_id)
    _note_refused(world, by, verb, stale.job_id, job, "FenceStale", state=stale.state, holder=stale.holder)
    if job is None:
        return
    late = Competing(
        actor=by.principal, at=world.now, what=f"came to {verb} with a fence that does not hold it"
    )
    stands = Competing(actor=_owner(job), at=job.updated_at, what=job.state.value)
    stale.conflict_id = record_repeat(world, _repeat(by, job), (stands, late), Affected(job=job.id))


def _note_refused(
    world: World, by: Caller, action: str, job_id: str, job: Job | None, outcome: str, **details: Any
) -> None:
    note(
        world,
        by,
        f"{action}_refused",
        job_id,
        outcome=outcome,
        subject_version=job.version if job else None,
        rule=job.verdict.rule if job else None,
        subject_hash=job.job_hash if job else None,
        details=details,
    )


def _owner(job: Job) -> str:
    return job.lease.worker if job.lease and job.lease.ended is None else "interlock"


def _repeat(by: Caller, job: Job) -> Repeat:
    return Repeat(
        tenant=by.tenant, kind=ConflictKind.STALE_FENCE, target=job.conflict_target, actor=by.principal
    )
