"""What a yes is bound to: the time it was asked for, the request as it was hashed and seen, its target, its policy."""

from __future__ import annotations

from datetime import datetime

from interlock.approvals.drifting import check_target
from interlock.approvals.model import Approval, ApprovalState
from interlock.approvals.placing import Proposal, judged_requirement
from interlock.approvals.refusals import (
    ApprovalExpired,
    HashMismatch,
    JobChanged,
    JobExpired,
    SnapshotChanged,
)
from interlock.approvals.revising import changes_since
from interlock.identity.model import PRINCIPALS
from interlock.jobs.model import Job, JobState
from interlock.kernel.world import World
from interlock.policy.rules import snapshot_in_force


def check_time(job: Job, approval: Approval, now: datetime) -> None:
    """What waits, for people or for a worker, must be in time, whether or not a sweep has run."""
    late = job.state_at(now) is JobState.EXPIRED and job.is_over_at(now)
    if late and job.expires_at is not None:
        raise JobExpired(job.id, job.expires_at, now)
    if approval.state_at(now) is ApprovalState.EXPIRED:
        raise ApprovalExpired(job.id, approval.ends_at, now)


def check_seen(job: Job, seen_hash: str | None) -> None:
    """What the reviewer saw, if they say so, must be what is stored: another version is another question."""
    if seen_hash is not None and seen_hash != job.job_hash:
        raise HashMismatch(job.id, job.state.value, job.job_hash, changes_since(job, seen_hash))


def check_said(job: Job, approval: Approval, seen_hash: str | None) -> None:
    """As `check_seen`; and once it was another request, or where the rule says so, they must say what they saw."""
    check_seen(job, seen_hash)
    if seen_hash is not None:
        return
    if any(old.job_hash != job.job_hash for old in job.revisions):
        raise HashMismatch(job.id, job.state.value, job.job_hash, changes_since(job, None), is_missing=True)
    if approval.requirement.require_hash:
        raise HashMismatch(job.id, job.state.value, job.job_hash, is_missing=True)


def check_binding(world: World, job: Job, approval: Approval, seen_hash: str | None) -> None:
    """What is approved must be what was stored, what was seen, for what is there now, and still be asked about."""
    if not is_whole(job, approval):
        raise JobChanged(job.id, job.state.value, approval.job_hash, job.action.hash(job.tenant))
    check_said(job, approval, seen_hash)
    check_target(world, job)
    if not still_asks(world, job, approval):
        current = snapshot_in_force(world, job.tenant)
        raise SnapshotChanged(job.id, job.state.value, approval.policy_snapshot, current)


def is_whole(job: Job, approval: Approval) -> bool:
    """Whether what is stored is what was hashed, and what people were asked about."""
    return job.is_intact and approval.job_hash == job.job_hash


def still_asks(world: World, job: Job, approval: Approval) -> bool:
    """Whether the policy in force is the one that asked or, if that is enough, asks for the same."""
    binding = approval.requirement.binding
    if binding == "workflow":
        return True
    if snapshot_in_force(world, job.tenant) == approval.policy_snapshot:
        return True
    return binding == "semantic" and _asks_the_same(world, job, approval)


def _asks_the_same(world: World, job: Job, approval: Approval) -> bool:
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    if submitter is None:
        return False
    proposal = Proposal(tenant=job.tenant, action=job.action, actor=submitter, priority=job.priority)
    return judged_requirement(world, proposal) == (approval.rule, approval.requirement)
