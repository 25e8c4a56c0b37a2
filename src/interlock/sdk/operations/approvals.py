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
    job_id: str,
    *,
    reason: str | None = None,
    note: str | None = None,
    job_hash: str | None = None,
    key: str | None = None,
) -> Flow[Review]:
    """Say yes. With `job_hash`, only to exactly what was looked at: `Conflict` if it is another by now."""
    body = {"reason": reason, "note": note, "job_hash": job_hash}
    return (yield from change(session, path("approvals", job_id, "approve"), Review, body, key=key))


def reject(
    session: Session,
    job_id: str,
    reason: str,
    *,
    note: str | None = None,
    code: str | None = None,
    key: str | None = None,
) -> Flow[Review]:
    """Say no, and why; the submitter is shown `reason`."""
    body = {"reason": reason, "note": note, "code": code}
    return (yield from change(session, path("approvals", job_id, "reject"), Review, body, key=key))


def refresh(session: Session, job_id: str, *, key: str | None = None) -> Flow[Job]:
    """Put a drifted approval back on the current policy and hash; votes are cleared."""
    return (yield from change(session, path("approvals", job_id, "refresh"), Job, key=key))


def edit(session: Session, job_id: str, payload: Any, *, reason: str, key: str | None = None) -> Flow[Job]:
    """Change what is asked for: new hash, policy evaluated again, votes cleared, the old version kept."""
    body = {"payload": payload, "reason": reason}
    return (yield from change(session, path("approvals", job_id, "edit"), Job, body, key=key))
