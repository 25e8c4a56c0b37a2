"""Jobs: propose an action, follow it, stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from interlock.sdk.calls import change, change_answered, decoded, fetch, path, words
from interlock.sdk.flow import Flow, Say
from interlock.sdk.models import AuditEntry, Evidence, Job, Page, Target
from interlock.sdk.session import Session


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
    body = {
        "topic": topic,
        "payload": {} if payload is msgspec.UNSET else payload,
        "env": env,
        "channel": channel,
        "labels": None if labels is None else dict(labels),
        "risk": None if risk is None else words(risk),
        "priority": priority,
        "target": msgspec.to_builtins(target),
        "evidence": None if evidence is None else msgspec.to_builtins(list(evidence)),
        "expires_in": expires_in,
        "max_attempts": max_attempts,
        "run_id": run_id,
        "approval": None if approval_groups is None else {"groups": words(approval_groups)},
        "executor": executor,
    }
    response = yield from change_answered(session, path("jobs"), body, key=key, scope=topic)
    replayed = response.headers.get("idempotency-replayed") == "true"
    return msgspec.structs.replace(decoded(response, Job), replayed=replayed)


def job(session: Session, job_id: str) -> Flow[Job]:
    """Read one job."""
    return (yield from fetch(session, path("jobs", job_id), Job))


def jobs(
    session: Session,
    *,
    state: str | None = None,
    topic: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Job]]:
    """List jobs, newest first."""
    query = {"state": state, "topic": topic, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("jobs"), Page[Job], query))


def cancel(session: Session, job_id: str, *, reason: str | None = None, key: str | None = None) -> Flow[Job]:
    """Stop a job that has not run."""
    return (yield from change(session, path("jobs", job_id, "cancel"), Job, {"reason": reason}, key=key))


def retry_job(session: Session, job_id: str, *, key: str | None = None) -> Flow[Job]:
    """Put a dead letter back to `PENDING`; of several callers one wins."""
    return (yield from change(session, path("jobs", job_id, "retry"), Job, key=key))


def history(
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
    body: Mapping[str, object] | None = None,
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
