"""How jobs and approvals look from outside."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.rooms.jobs.approval import Approval
from interlock.rooms.jobs.model import GRANTED_LABEL, Evidence, Job
from interlock.rooms.policy.action import Failure, TargetRef


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy said. `observed` is what it would have done, had it not only been observing.

    With `failure`, the rule's expression could not be answered about this job, which denies it.
    """

    rule: str | None
    decision: str
    reason: str
    observed: str | None = None
    failure: Failure | None = None


class VoteView(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    at: datetime
    reason: str = ""
    note: str = ""
    groups: tuple[str, ...] = ()
    via: str = "api"


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    after_seconds: int
    groups: list[str]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A request for people's decision. Empty `groups` means any person with the role `review`.

    Until `grace_until` (`in_grace`) whoever voted may withdraw, and nobody may claim the job.
    """

    state: str
    rule: str | None
    quorum: int
    groups: list[str]
    self_approval: bool
    binding: str
    require_hash: bool
    grace_seconds: int
    on_expiry: str
    escalate: list[StepView]
    votes: list[VoteView]
    requested_at: datetime
    expires_at: datetime
    policy_snapshot: str
    job_hash: str
    round: int
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    decided_via: str | None = None
    grace_until: datetime | None = None
    in_grace: bool = False
    reason: str = ""
    note: str = ""
    code: str | None = None


class RevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """What the job was before an edit or refresh."""

    payload: msgspec.Raw
    job_hash: str
    policy_snapshot: str | None
    approval: ApprovalView | None
    replaced_at: datetime
    replaced_by: str
    why: str


class GrantUseView(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a standing grant that released a job. `groups`: its issuer was in one of them, as the policy asked."""

    grant_id: str
    use: int
    groups: list[str]


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job. `labels` are as submitted with those that Interlock added (`system_labels`) on top.

    `executor` is who carries it out: any "worker", or only the "caller" that submitted it. `result_text` is what was
    kept of a result that is not JSON. `revisions` are the versions it had before: of one job that is read, edited or
    refreshed. Others leave them out.
    """

    id: str
    state: str
    topic: str
    env: str
    channel: str
    labels: dict[str, str]
    system_labels: dict[str, str]
    risk: list[str]
    payload: msgspec.Raw
    target: TargetRef | None
    evidence: list[Evidence]
    priority: str
    job_hash: str
    policy_snapshot: str | None
    decision: VerdictView
    approval: ApprovalView | None
    grant_use: GrantUseView | None
    submitted_by: str
    submitted_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    max_attempts: int
    run_id: str | None
    executor: str
    version: int
    attempt: int
    leased_by: str | None
    lease_expires_at: datetime | None
    not_before: datetime | None
    held_up: str | None
    checkpoint: Any
    result: Any
    result_text: str | None
    error: Any
    finished_at: datetime | None
    fence: int | msgspec.UnsetType = msgspec.UNSET
    revisions: list[RevisionView] | msgspec.UnsetType = msgspec.UNSET


def approval_view(approval: Approval, now: datetime | None = None) -> ApprovalView:
    """An approval as it stands; with `now`, one past its time is shown as expired."""
    asked = approval.requirement
    return ApprovalView(
        state=(approval.state_at(now) if now else approval.state).value,
        rule=approval.rule,
        quorum=asked.quorum,
        groups=list(approval.groups_at(now) if now else asked.groups),
        self_approval=asked.self_approval,
        binding=asked.binding,
        require_hash=asked.require_hash,
        grace_seconds=asked.grace_seconds,
        on_expiry=asked.on_expiry,
        escalate=[
            StepView(after_seconds=step.after_seconds, groups=list(step.groups)) for step in asked.escalate
        ],
        votes=[
            VoteView(principal=v.principal, at=v.at, reason=v.reason, note=v.note, groups=v.groups, via=v.via)
            for v in approval.votes
        ],
        requested_at=approval.requested_at,
        expires_at=approval.ends_at,
        policy_snapshot=approval.policy_snapshot,
        job_hash=approval.job_hash,
        round=approval.round,
        decision_id=approval.decision_id,
        decided_by=approval.decided_by,
        decided_at=approval.decided_at,
        decided_via=approval.decided_via,
        grace_until=approval.grace_until,
        in_grace=now is not None and approval.is_in_grace_at(now),
        reason=approval.reason,
        note=approval.note,
        code=approval.code,
    )


def job_fields(job: Job, now: datetime | None = None, *, seen_by: str = "") -> dict[str, Any]:
    """Everything of a job that every view of it shows; with `now`, one past its time is shown as expired.

    The fence is for whoever holds it, or was the last to: `seen_by` is who looks.
    """
    action = job.action
    lease = job.lease if job.lease_until else None
    return {
        "id": job.id,
        "state": (job.state_at(now) if now else job.state).value,
        "topic": action.topic,
        "env": action.env,
        "channel": action.channel,
        "labels": _labels(job),
        "system_labels": job.system_labels,
        "risk": list(action.risk),
        "payload": action.payload,
        "target": action.target,
        "evidence": list(job.evidence),
        "priority": job.priority.value,
        "job_hash": job.job_hash,
        "policy_snapshot": job.policy_snapshot,
        "decision": verdict_view(job),
        "approval": approval_view(job.approval, now) if job.approval else None,
        "grant_use": _grant_use(job),
        "submitted_by": job.submitted_by,
        "submitted_at": job.submitted_at,
        "updated_at": job.updated_at,
        "expires_at": job.expires_at,
        "max_attempts": job.max_attempts,
        "run_id": job.run_id,
        "executor": job.executor.value,
        "version": job.version,
        "attempt": job.attempt,
        "fence": job.fence if job.lease and job.lease.worker == seen_by else msgspec.UNSET,
        "leased_by": lease.worker if lease else None,
        "lease_expires_at": lease.expires_at if lease else None,
        "not_before": job.not_before,
        "held_up": job.held_up,
        "checkpoint": job.checkpoint,
        "result": job.result,
        "result_text": job.result_text,
        "error": job.error,
        "finished_at": job.finished_at,
    }


def job_view(job: Job, now: datetime | None = None, *, seen_by: str = "") -> JobView:
    """A job, without the versions it had before."""
    return JobView(**job_fields(job, now, seen_by=seen_by))


def whole_view(job: Job, now: datetime | None = None, *, seen_by: str = "") -> JobView:
    """A job with the versions it had before."""
    fields = job_fields(job, now, seen_by=seen_by)
    return JobView(**fields, revisions=[_revision(old) for old in job.revisions])


def _labels(job: Job) -> dict[str, str]:
    # Only Interlock says that people approved: the same label in an older row is not shown.
    given = {name: value for name, value in job.action.labels.items() if name != GRANTED_LABEL}
    return given | job.system_labels


def _grant_use(job: Job) -> GrantUseView | None:
    used = job.grant_use
    if used is None:
        return None
    return GrantUseView(grant_id=used.grant_id, use=used.use, groups=list(used.requirement.groups))


def verdict_view(job: Job) -> VerdictView:
    verdict = job.verdict
    return VerdictView(
        rule=verdict.rule,
        decision=verdict.decision,
        reason=verdict.reason,
        observed=verdict.observed,
        failure=verdict.failure,
    )


def _revision(old: Any) -> RevisionView:
    return RevisionView(
        payload=old.action.payload,
        job_hash=old.job_hash,
        policy_snapshot=old.policy_snapshot,
        approval=approval_view(old.approval) if old.approval else None,
        replaced_at=old.replaced_at,
        replaced_by=old.replaced_by,
        why=old.why,
    )
