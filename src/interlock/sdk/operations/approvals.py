"""Approvals: what waits for people, and what they decide."""

from __future__ import annotations

from typing import Any, Literal

from interlock.sdk.approval_models import ApprovalItem, ApprovalRequest, Review
from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import Job, Page
from interlock.sdk.session import Session


def approvals(
    session: Session,
    *,
    state: Literal["pending", "approved", "rejected", "expired"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[ApprovalItem]]:
    """List the jobs that people were asked about, newest first."""
    query = {"state": state, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("approvals"), Page[ApprovalItem], query))


def approval(session: Session, job_id: str) -> Flow[ApprovalRequest]:
    """Read everything that a reviewer needs to decide on a job."""
    return (yield from fetch(session, path("approvals", job_id), ApprovalRequest))


def approve(
    session: Session,
    job: str | Job | ApprovalRequest,
    *,
    reason: str | None = None,
    note: str | None = None,
    job_hash: str | None = None,
    key: str | None = None,
) -> Flow[Review]:
    """Say yes to exactly what was looked at: pass what you showed, or its id with `job_hash`.

    `Conflict` if it is another by now, or if it was edited and only its id is given.
    """
    job_id, seen = _seen(job, job_hash)
    body = {"reason": reason, "note": note, "job_hash": seen}
    return (yield from change(session, path("approvals", job_id, "approve"), Review, body, key=key))


def reject(
    session: Session,
    job: str | Job | ApprovalRequest,
    reason: str,
    *,
    note: str | None = None,
    code: str | None = None,
    job_hash: str | None = None,
    key: str | None = None,
) -> Flow[Review]:
    """Say no, and why; the submitter is shown `reason`.

    Pass what you showed, or its id with `job_hash`, to say no to that version alone.
    """
    job_id, seen = _seen(job, job_hash)
    body = {"reason": reason, "note": note, "code": code, "job_hash": seen}
    return (yield from change(session, path("approvals", job_id, "reject"), Review, body, key=key))


def refresh(session: Session, job_id: str, *, key: str | None = None) -> Flow[Job]:
    """Put a drifted approval back on the current policy and hash; votes are cleared."""
    return (yield from change(session, path("approvals", job_id, "refresh"), Job, key=key))


def edit(session: Session, job_id: str, payload: Any, *, reason: str, key: str | None = None) -> Flow[Job]:
    """Change what is asked for: new hash, policy evaluated again, votes cleared, the old version kept."""
    body = {"payload": payload, "reason": reason}
    return (yield from change(session, path("approvals", job_id, "edit"), Job, body, key=key))


def _seen(job: str | Job | ApprovalRequest, job_hash: str | None) -> tuple[str, str | None]:
    """The job's id, and the hash of the version that was looked at, if that is known."""
    if isinstance(job, str):
        return job, job_hash
    job_id = job.job_id if isinstance(job, ApprovalRequest) else job.id
    return job_id, job_hash or job.job_hash
