"""Effects: take the right to act once, and say what became of it. `once` does all of this for a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import Page
from interlock.sdk.session import Session
from interlock.sdk.shared_work import Effect, EffectResult


def begin_effect(
    session: Session,
    action_id: str,
    *,
    request_hash: str,
    job_id: str | None = None,
    permit: str | None = None,
    lease: Mapping[str, object] | None = None,
    target: Mapping[str, object] | None = None,
    grant: Mapping[str, object] | None = None,
    ttl_seconds: float | None = None,
    key: str | None = None,
) -> Flow[Effect]:
    """Take the right to carry an action out, or learn that it was done (`replayed`).

    `Busy` if somebody is at it, `Ambiguous` if nobody knows whether it happened, `Conflict` if the id was used
    for another request or what it is for has moved, `Denied` if no `grant` (its `task`, `args`, perhaps
    `grant_id`) permits it.
    """
    body = {
        "request_hash": request_hash,
        "job_id": job_id,
        "permit": permit,
        "lease": lease,
        "target": target,
        "grant": grant,
        "ttl_seconds": ttl_seconds,
    }
    return (yield from change(session, path("effects", action_id, "begin"), Effect, body, key=key))


def commit_effect(
    session: Session, action_id: str, fence: int, result: Any = None, *, key: str | None = None
) -> Flow[Effect]:
    """Say that it happened, with this result. `Conflict` (`fence_stale`) if it was settled without you."""
    body = {"fence": fence, "result": result}
    return (yield from change(session, path("effects", action_id, "commit"), Effect, body, key=key))


def fail_effect(
    session: Session,
    action_id: str,
    fence: int,
    error: Any,
    *,
    safe_to_retry: bool,
    key: str | None = None,
) -> Flow[Effect]:
    """Say that it surely did not happen (`safe_to_retry`), or that nobody can tell."""
    body = {"fence": fence, "error": error, "safe_to_retry": safe_to_retry}
    return (yield from change(session, path("effects", action_id, "fail"), Effect, body, key=key))


def resolve_effect(
    session: Session,
    action_id: str,
    outcome: Literal["committed", "not_committed"],
    evidence: Any,
    *,
    result: Any = None,
    key: str | None = None,
) -> Flow[Effect]:
    """Say what became of an effect whose outcome is unknown, and how you know."""
    body = {"outcome": outcome, "evidence": evidence, "result": result}
    return (yield from change(session, path("effects", action_id, "resolve"), Effect, body, key=key))


def get_effect(session: Session, action_id: str) -> Flow[Effect]:
    """Read what became of an effect."""
    return (yield from fetch(session, path("effects", action_id), Effect))


def effect_result(session: Session, action_id: str) -> Flow[EffectResult]:
    """Read the whole result of an effect, however large."""
    return (yield from fetch(session, path("effects", action_id, "result"), EffectResult))


def effects(
    session: Session,
    *,
    state: Literal["IN_PROGRESS", "COMMITTED", "FAILED", "AMBIGUOUS"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Effect]]:
    """List effects, newest first."""
    query = {"state": state, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("effects"), Page[Effect], query))
