"""Work: claim jobs, keep them, and report how they ended. `Worker` does all of this for a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from interlock.sdk.calls import change, given, path, words
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire import jobs as wire
from interlock.wire.jobs import Claimed, HeldJob, Job, Renewed


def claim_jobs(
    session: Session,
    topics: Sequence[str],
    *,
    max: int = 1,  # noqa: A002 - the API's own word
    lease_seconds: int = 30,
    wait_seconds: int = 0,
    key: str | None = None,
) -> Flow[tuple[HeldJob, ...]]:
    """Take up to `max` jobs of these topics (exact or globs), waiting `wait_seconds` for the first.

    Each is yours for `lease_seconds`, unless you renew it with `renew_job`. The answer may be empty.
    """
    body = wire.ClaimJobsBody(
        topics=words(topics), max=max, lease_seconds=lease_seconds, wait_seconds=wait_seconds
    )
    where = path("jobs", "claim")
    claimed = yield from change(session, where, Claimed, body, key=key, hold_seconds=wait_seconds)
    return claimed.jobs


def claim_job(
    session: Session,
    job_id: str,
    *,
    lease_seconds: float = 30,
    repeatable: bool = False,
    busy_seconds: float | None = None,
    key: str | None = None,
) -> Flow[HeldJob]:
    """Take one job by its id. Of several callers one wins; the others get `Conflict`, or `Busy` if it is a gated
    call's. Taking that begins its effect, unless you say that it is `repeatable`. `busy_seconds` bounds how long a
    busy one is asked for again.
    """
    body = given(wire.ClaimJobBody, lease_seconds=lease_seconds, repeatable=repeatable or None)
    where = path("jobs", job_id, "claim")
    return (yield from change(session, where, HeldJob, body, key=key, busy_seconds=busy_seconds))


def renew_job(
    session: Session, job_id: str, fence: int, *, checkpoint: Any = None, key: str | None = None
) -> Flow[Renewed]:
    """Keep a job for another lease's length, and leave a checkpoint. `Conflict` if it is lost."""
    body = wire.RenewJobBody(fence=fence, checkpoint=checkpoint)
    return (yield from change(session, path("jobs", job_id, "renew"), Renewed, body, key=key))


def complete_job(
    session: Session,
    job_id: str,
    fence: int,
    result: Any = None,
    *,
    result_text: str | None = None,
    key: str | None = None,
) -> Flow[Job]:
    """Say that a job is done. `result_text` is for a result that is not JSON. `Conflict` (`fence_stale`) if the job is
    no longer yours.
    """
    body = wire.CompleteJobBody(fence=fence, result=result, result_text=result_text)
    return (yield from change(session, path("jobs", job_id, "complete"), Job, body, key=key))


def fail_job(
    session: Session,
    job_id: str,
    fence: int,
    error: Any,
    *,
    retryable: bool = True,
    key: str | None = None,
) -> Flow[Job]:
    """Say that a job did not succeed: if `retryable`, it is tried again while attempts last."""
    body = wire.FailJobBody(fence=fence, error=error, retryable=retryable)
    return (yield from change(session, path("jobs", job_id, "fail"), Job, body, key=key))


def release_job(
    session: Session, job_id: str, fence: int, *, checkpoint: Any = None, key: str | None = None
) -> Flow[Job]:
    """Give a job back; no attempt is counted."""
    body = wire.ReleaseJobBody(fence=fence, checkpoint=checkpoint)
    return (yield from change(session, path("jobs", job_id, "release"), Job, body, key=key))


def reconcile_job(
    session: Session,
    job_id: str,
    outcome: Literal["committed", "not_committed"],
    evidence: Any,
    *,
    result: Any = None,
    key: str | None = None,
) -> Flow[Job]:
    """Say what the remote side told you about your own gated call in doubt: then it is done, or may run again."""
    body = wire.ReconcileJobBody(outcome=outcome, evidence=evidence, result=result)
    return (yield from change(session, path("jobs", job_id, "reconcile"), Job, body, key=key))
