"""Whose a job is, and what work on it leaves behind beside its changes."""

from __future__ import annotations

from interlock.approvals.recording import find_job
from interlock.audit.rules import Note, note
from interlock.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.conflicts.rules import record_repeat, repeat_reads
from interlock.identity.model import Caller, Role
from interlock.identity.refusals import Forbidden
from interlock.identity.rules import identify
from interlock.jobs.model import JOBS, Job
from interlock.jobs.refusals import FenceStale
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World


def find_own_job(world: World, caller: Caller, job_id: str) -> Job:
    """A job that the caller submitted, or any if it operates the tenant; else `Forbidden`."""
    principal = identify(world, caller)
    job = find_job(world, caller.tenant, job_id)
    if not {Role.OPERATE, Role.ADMIN} & set(principal.roles) and principal.id != job.submitted_by:
        raise Forbidden(principal.id, (Role.OPERATE,))
    return job


def stale_fence_reads(world: World, by: Caller, job_id: str, fence: int) -> Reads:
    """What a stale fence is recorded in, if this one looks stale; a holder in good standing pays nothing."""
    job = world.get(JOBS, by.tenant, job_id)
    if job is None:
        return NOTHING
    lease = job.lease if job.lease_until and job.fence == fence else None
    holds = lease is not None and lease.worker == by.principal and world.now < lease.expires_at
    return NOTHING if holds else repeat_reads(_repeat(by, job))


def record_stale_fence(world: World, by: Caller, verb: str, stale: FenceStale) -> None:
    """Audit that somebody came with a fence that no longer holds, and keep the collision for review.

    Nothing of what it wanted is kept.
    """
    job = world.get(JOBS, by.tenant, stale.job_id)
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=f"{verb}_refused",
            subject=stale.job_id,
            outcome="FenceStale",
            subject_version=job.version if job else None,
            rule=job.verdict.rule if job else None,
            hash=job.job_hash if job else None,
            request_id=by.request_id,
            details={"state": stale.state, "holder": stale.holder},
        ),
    )
    if job is None:
        return
    late = Competing(
        actor=by.principal, at=world.now, what=f"came to {verb} with a fence that does not hold it"
    )
    stands = Competing(actor=_owner(job), at=job.updated_at, what=job.state.value)
    stale.conflict_id = record_repeat(world, _repeat(by, job), (stands, late), Affected(job=job.id))


def _owner(job: Job) -> str:
    return job.lease.worker if job.lease and job.lease.ended is None else "interlock"


def _repeat(by: Caller, job: Job) -> Repeat:
    return Repeat(
        tenant=by.tenant, kind=ConflictKind.STALE_FENCE, target=job.conflict_target, actor=by.principal
    )
