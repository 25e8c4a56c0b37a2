"""Jobs: propose an action, follow it, cancel it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal, TypeAlias

import msgspec

from interlock.sdk.calls import Sent, change, change_answered, decoded, fetch, given, path, words
from interlock.sdk.calls import ask as question
from interlock.sdk.flow import Flow, Say, now, sleep
from interlock.sdk.outcomes import Busy, Full, InterlockError, InvalidRequest, StillPending, Unavailable
from interlock.sdk.session import Session
from interlock.wire import approvals as wire
from interlock.wire.approvals import (
    ApprovalItem,
    ApprovalRequest,
    Comment,
    Inbox,
    InboxCounts,
    Review,
    Viewers,
)
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page
from interlock.wire.jobs import CancelJobBody, Evidence, Job, PeopleBody, SubmitBody, Target


def submit(
    session: Session,
    topic: str,
    payload: object = msgspec.UNSET,
    *,
    env: str | None = None,
    channel: str | None = None,
    labels: Mapping[str, str] | None = None,
    risk: Sequence[str] | None = None,
    priority: Literal["low", "normal", "high", "critical"] | None = None,
    target: Target | None = None,
    evidence: Sequence[Evidence] | None = None,
    expires_in: str | None = None,
    max_attempts: int | None = None,
    run_id: str | None = None,
    approval_groups: Sequence[str] | None = None,
    executor: Literal["worker", "caller"] | None = None,
    key: str | None = None,
) -> Flow[Job]:
    """Propose an action. The job comes back `PENDING` (policy allows it) or `APPROVAL` (a person must).

    With `approval_groups` people decide even if the policy would allow it: of these groups, or any reviewer if there
    are none in it. With `executor="caller"` only you may claim it, by its id. `payload` is JSON, `{}` if left out.
    `key` names the intent: submitting it again, even from another process, finds the same job. Raises `Denied` if
    policy says no, `Conflict` if `key` was used for something else.
    """
    body = given(
        SubmitBody,
        topic=topic,
        payload={} if payload is msgspec.UNSET else payload,
        env=env,
        channel=channel,
        labels=None if labels is None else dict(labels),
        risk=None if risk is None else words(risk),
        priority=priority,
        target=msgspec.to_builtins(target),
        evidence=None if evidence is None else msgspec.to_builtins(list(evidence)),
        expires_in=expires_in,
        max_attempts=max_attempts,
        run_id=run_id,
        approval=None if approval_groups is None else PeopleBody(groups=words(approval_groups)),
        executor=executor,
    )
    response = yield from change_answered(session, path("jobs"), body, key=key, scope=topic)
    replayed = response.headers.get("idempotency-replayed") == "true"
    return msgspec.structs.replace(decoded(response, Job), replayed=replayed)


def get_job(session: Session, job_id: str) -> Flow[Job]:
    """Read one job."""
    return (yield from fetch(session, path("jobs", job_id), Job))


def jobs(
    session: Session,
    *,
    state: str | None = None,
    topic: str | None = None,
    q: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Job]]:
    """List jobs, newest first; with `q`, those in which every word of it occurs."""
    query = {"state": state, "topic": topic, "q": q, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("jobs"), Page[Job], query))


def cancel_job(
    session: Session, job_id: str, *, reason: str | None = None, key: str | None = None
) -> Flow[Job]:
    """Stop a job that has not run."""
    body = given(CancelJobBody, reason=reason)
    return (yield from change(session, path("jobs", job_id, "cancel"), Job, body, key=key))


def retry_job(session: Session, job_id: str, *, key: str | None = None) -> Flow[Job]:
    """Put a dead letter back to `PENDING`; of several callers one wins."""
    return (yield from change(session, path("jobs", job_id, "retry"), Job, key=key))


def get_job_history(
    session: Session, job_id: str, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[AuditEntry]]:
    """List everything that happened to a job, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("jobs", job_id, "history"), Page[AuditEntry], query))


def call(
    session: Session,
    method: Literal["GET", "POST", "PUT", "DELETE"],
    *segments: str,
    query: Mapping[str, str | int | None] | None = None,
    body: Sent | None = None,
    key: str | None = None,
    hold_seconds: float = 0,
    busy_seconds: float | None = None,
    say: Say | None = None,
) -> Flow[Any]:
    """Call any route by its path segments, with the same retries and outcomes; the answer as plain JSON.

    `hold_seconds` is how long the service may keep the call waiting because the body says so (`wait_seconds`);
    `say` tells of it once it has taken longer than a second. `busy_seconds` bounds the retries of what is held or
    full: 0 makes none.
    """
    where = path(*segments)
    if method == "GET":
        return (yield from fetch(session, where, object, query, hold_seconds=hold_seconds, say=say))
    answer = change(
        session,
        where,
        object,
        body,
        key=key,
        method=method,
        hold_seconds=hold_seconds,
        busy_seconds=busy_seconds,
        say=say,
    )
    return (yield from answer)


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


def get_inbox(
    session: Session,
    *,
    mine: bool | None = None,
    topic: str | None = None,
    env: str | None = None,
    by: str | None = None,
    q: str | None = None,
    order: Literal["urgency", "newest"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Inbox]:
    """List what waits for the caller's decision, the most urgent first; with `mine=False`, for any reviewer's.

    A page may be short, or empty, although there are more: go on while it has a `next_cursor`.
    """
    query = {
        "mine": None if mine is None else str(mine).lower(),
        "topic": topic,
        "env": env,
        "by": by,
        "q": q,
        "order": order,
        "limit": limit,
        "cursor": cursor,
    }
    return (yield from fetch(session, path("inbox"), Inbox, query))


def get_inbox_counts(session: Session) -> Flow[InboxCounts]:
    """Count what needs attention: requests that wait, conflicts, effects in doubt and dead letters."""
    return (yield from fetch(session, path("inbox", "counts"), InboxCounts))


def get_approval(session: Session, job_id: str) -> Flow[ApprovalRequest]:
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
    body = given(wire.ApproveBody, reason=reason, note=note, job_hash=seen)
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
    body = given(wire.RejectBody, reason=reason, note=note, code=code, job_hash=seen)
    return (yield from change(session, path("approvals", job_id, "reject"), Review, body, key=key))


def refresh(session: Session, job_id: str, *, key: str | None = None) -> Flow[Job]:
    """Put a drifted approval back on the current policy and hash; votes are cleared."""
    return (yield from change(session, path("approvals", job_id, "refresh"), Job, key=key))


def edit(
    session: Session,
    job_id: str,
    payload: Any,
    *,
    reason: str,
    job_hash: str | None = None,
    key: str | None = None,
) -> Flow[Job]:
    """Change what is asked for: new hash, policy evaluated again, votes cleared, the old version kept.

    With the `job_hash` of the version that you changed, `Conflict` if it is not the stored one any more.
    """
    body = wire.EditBody(payload=payload, reason=reason, job_hash=job_hash)
    return (yield from change(session, path("approvals", job_id, "edit"), Job, body, key=key))


def withdraw(session: Session, job_id: str, reason: str, *, key: str | None = None) -> Flow[Review]:
    """Take your own yes back: while the request waits, or within the grace after it was approved.

    `Conflict` once the grace is over: then only `cancel_job` stops the job.
    """
    where = path("approvals", job_id, "withdraw")
    return (yield from change(session, where, Review, wire.WithdrawBody(reason=reason), key=key))


def comment(session: Session, job_id: str, text: str, *, key: str | None = None) -> Flow[Comment]:
    """Say something about a request, to its reviewers and its submitter. A submitter answers with it, too."""
    where = path("approvals", job_id, "comment")
    return (yield from change(session, where, Comment, wire.CommentBody(text=text), key=key))


def comments(
    session: Session, job_id: str, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Comment]]:
    """List all that was said of a request, newest first; `approval` has the newest 50."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("approvals", job_id, "comments"), Page[Comment], query))


def ask(session: Session, job_id: str, text: str, *, key: str | None = None) -> Flow[Comment]:
    """Ask the submitter of a request something. It stays open until they comment, or the request is edited."""
    where = path("approvals", job_id, "ask")
    return (yield from change(session, where, Comment, wire.CommentBody(text=text), key=key))


def look(session: Session, job_id: str) -> Flow[Viewers]:
    """Say that you have a request open, and see who else has. Repeat it every 20 s or so while you do."""
    return (yield from question(session, path("approvals", job_id, "look"), Viewers, {}))


def _seen(job: str | Job | ApprovalRequest, job_hash: str | None) -> tuple[str, str | None]:
    """The job's id, and the hash of the version that was looked at, if that is known."""
    if isinstance(job, str):
        return job, job_hash
    job_id = job.job_id if isinstance(job, ApprovalRequest) else job.id
    return job_id, job_hash or job.job_hash


Until: TypeAlias = Literal["decided", "finished"]

HOLD_SECONDS = 20
POLL_SECONDS_FIRST = 0.5
POLL_SECONDS_MOST = 10.0


def wait(
    session: Session, job_id: str, timeout: float | None = None, *, until: Until = "finished"
) -> Flow[Job]:
    """Wait until a job is `decided` (no person has to act any more) or `finished`, and return it.

    `timeout` is in seconds, None for ever, 0 to look once. Raises `StillPending` when it is up; the job
    goes on, and waiting again resumes where this wait left off.
    """
    seen = yield from fetch(session, path("jobs", job_id), Job)
    return (yield from watch(session, seen, timeout=timeout, until=until))


def watch(
    session: Session, seen: Job, *, timeout: float | None, until: Until, aloud: bool = False
) -> Flow[Job]:
    """Wait as `wait` does, beginning from a job already seen. `aloud` prints what is waited for, once."""
    latest: Job | InterlockError = seen
    latest_at = yield from now()
    ends_at = inf if timeout is None else latest_at + timeout
    pause = POLL_SECONDS_FIRST
    say = _says(session, seen, timeout, until, aloud=aloud)
    while not (isinstance(latest, Job) and _reached(latest, until)):
        if latest_at >= ends_at:
            raise _out_of_time(seen, latest)
        asked_at = yield from now()
        hold = _hold_seconds(session, ends_at - asked_at)
        latest = yield from _look(session, seen.id, until, hold, ends_at - asked_at, say)
        latest_at = yield from now()
        if hold and latest_at - asked_at >= hold * 0.9:
            pause = POLL_SECONDS_FIRST  # held as asked: the next question may follow at once
        elif not (isinstance(latest, Job) and _reached(latest, until)):
            yield from sleep(max(0.0, min(_rest(session, latest, pause), ends_at - latest_at)))
            pause = min(POLL_SECONDS_MOST, pause * 1.5)
    return latest


def _hold_seconds(session: Session, left: float) -> int:
    """How long the service is asked to hold a question; 0 asks it to answer at once."""
    return int(min(max(left, 0.0), HOLD_SECONDS)) if session.long_polls else 0


def _says(session: Session, job: Job, timeout: float | None, until: Until, *, aloud: bool) -> Say | None:
    approval = job.approval if job.state == "APPROVAL" else None
    if approval is None:
        what = f"job {job.id} ({job.topic}) to be {until}"
    else:
        left = max(1, approval.quorum - len(approval.votes))
        what = f"{left} approval{'s' if left > 1 else ''} of job {job.id} ({job.topic})"
    return session.says(what, timeout, until=approval.expires_at if approval else None, aloud=aloud)


def _look(
    session: Session, job_id: str, until: Until, hold: int, left: float, say: Say | None
) -> Flow[Job | InterlockError]:
    """Ask once. Trouble that passes is an answer too; a refusal is raised."""
    query = {"wait_seconds": hold, "until": until} if hold else {}
    deadline = max(left - hold, session.timeout_seconds)
    try:
        return (
            yield from fetch(
                session,
                path("jobs", job_id),
                Job,
                query,
                hold_seconds=hold,
                deadline_seconds=deadline,
                say=say,
            )
        )
    except InvalidRequest:
        if not hold:
            raise
        session.long_polls = False  # an older server; it is asked plainly from now on
        return (yield from fetch(session, path("jobs", job_id), Job, deadline_seconds=deadline))
    except (Unavailable, Busy, Full) as trouble:
        return trouble


def _reached(job: Job, until: Until) -> bool:
    return job.is_decided if until == "decided" else job.is_finished


def _rest(session: Session, latest: Job | InterlockError, pause: float) -> float:
    """How long to leave the service alone: around `pause`, and no shorter than it asked for."""
    asked = latest.problem.retry_after_seconds if isinstance(latest, InterlockError) else None
    return (asked or 0.0) + pause * (0.5 + session.fraction())


def _out_of_time(seen: Job, latest: Job | InterlockError) -> InterlockError:
    if isinstance(latest, InterlockError):
        return latest
    resume = f"resume with wait({seen.id!r}), or read it with job({seen.id!r})"
    return StillPending(seen.id, state=latest.state, resume=resume)
