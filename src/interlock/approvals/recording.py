"""What every change of a job leaves behind: an audit entry, an event, a wake-up."""

from __future__ import annotations

from typing import Any

from interlock.approvals.refusals import DecisionRefused
from interlock.audit.rules import Note, note
from interlock.identity.model import Caller
from interlock.identity.refusals import Forbidden, NotFound, PeopleOnly
from interlock.jobs.model import ADVANCE_TOPIC, JOBS, Job, JobState, claims_topic, job_topic
from interlock.kernel.refusal import Refusal, Unreadable
from interlock.kernel.world import World
from interlock.outbox.rules import announce
from interlock.policy.refusals import PolicyThrottled, PolicyUnavailable

SWEEP = "interlock"

# What is audited when a decision is refused: that somebody tried matters, whatever stopped them.
DECISION_REFUSALS = (DecisionRefused, PeopleOnly, Forbidden, PolicyThrottled, PolicyUnavailable, Unreadable)


def find_job(world: World, tenant: str, job_id: str) -> Job:
    """The job, or `NotFound`: another tenant's job is as absent as one that never was."""
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
        Note(
            tenant=job.tenant,
            actor=by.principal if by else SWEEP,
            action=action,
            subject=job.id,
            subject_version=job.version,
            rule=job.verdict.rule,
            hash=job.job_hash,
            request_id=by.request_id if by else None,
            details={"state": job.state.value, **{name: value for name, value in details.items() if value}},
        ),
    )


def record_refusal(world: World, by: Caller, action: str, job_id: str, refusal: Refusal) -> None:
    """Audit that a decision was refused, and why, as fully as one that was made."""
    job = refused_job(world, by.tenant, job_id, refusal)
    note(
        world,
        Note(
            tenant=by.tenant,
            actor=by.principal,
            action=f"{action}_refused",
            subject=job_id,
            outcome=type(refusal).__name__,
            subject_version=job.version if job else None,
            rule=job.verdict.rule if job else None,
            hash=job.job_hash if job else None,
            request_id=by.request_id,
            details={"detail": refusal.detail},
        ),
    )


def announce_job(world: World, job: Job, event_type: str, **data: Any) -> None:
    """Tell the outside, whoever waits for this job, and workers if it may now run."""
    facts: dict[str, Any] = {
        "job_id": job.id,
        "state": job.state.value,
        "topic": job.action.topic,
        "job_hash": job.job_hash,
        "version": job.version,
    }
    announce(world, job.tenant, event_type, job.id, {**facts, **data})
    world.wake(job_topic(job.tenant, job.id))
    if job.run_id is not None:
        world.wake(ADVANCE_TOPIC)
    if job.state is JobState.PENDING and not job.is_call:
        world.wake(claims_topic(job.tenant, job.action.topic))
