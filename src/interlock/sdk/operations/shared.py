"""Effects, targets and conflicts: what several agents may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from interlock.sdk.calls import change, fetch, given, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session, log
from interlock.wire import effects as wire_effects
from interlock.wire import shared as wire_shared
from interlock.wire.effects import Effect, EffectResult
from interlock.wire.fields import Page
from interlock.wire.shared import Conflict, Patterns, TargetState, Touched, TouchedMany


def conflicts(
    session: Session,
    *,
    state: Literal["open", "resolved"] | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Conflict]]:
    """List collisions, newest first."""
    query = {"state": state, "kind": kind, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("conflicts"), Page[Conflict], query))


def get_conflict(session: Session, conflict_id: str) -> Flow[Conflict]:
    """Read one collision, and the safest next step."""
    return (yield from fetch(session, path("conflicts", conflict_id), Conflict))


def resolve_conflict(
    session: Session,
    conflict_id: str,
    resolution: Literal["keep_first", "keep_second", "merge", "retry", "discard"],
    *,
    note: str,
    key: str | None = None,
) -> Flow[Conflict]:
    """Say how a collision was settled, and carry that out where it means something (`carried_out`)."""
    body = wire_shared.ResolveConflictBody(resolution=resolution, note=note)
    return (yield from change(session, path("conflicts", conflict_id, "resolve"), Conflict, body, key=key))


def conflict_patterns(session: Session, *, last: int | None = None) -> Flow[Patterns]:
    """See what keeps colliding among the newest conflicts, and what would prevent it."""
    return (yield from fetch(session, path("conflicts", "patterns"), Patterns, {"last": last}))


def touch(
    client: Session,
    target: str,
    version: str,
    *,
    previous_version: str | None = None,
    summary: str | None = None,
    session: str | None = None,
    key: str | None = None,
) -> Flow[Touched]:
    """Report that you changed a target to `version`: an etag, a digest or a number of your own.

    With `previous_version`, the one you started from, a change by another caller in between is noticed. The holder of
    a lease on the target is told, and `conflict_id` names the conflict. A holder whose lease was acquired in a session
    names it here too (default: that of the client); if not, the touch counts as the holder's, and `held_in_session`
    names the session.
    """
    body = given(
        wire_shared.TouchBody,
        version=version,
        previous_version=previous_version,
        summary=summary,
        session=client.names(session),
    )
    touched = yield from change(client, path("targets", target, "touch"), Touched, body, key=key)
    _warn_of_session(touched)
    return touched


def touch_targets(
    client: Session,
    changes: Sequence[Mapping[str, str]],
    *,
    session: str | None = None,
    key: str | None = None,
) -> Flow[tuple[Touched, ...]]:
    """Report several changes as one: each a mapping with `key`, `version`, perhaps `previous_version` and `summary`.

    `session` is as in `touch`.
    """
    body = given(
        wire_shared.TouchesBody, changes=[dict(each) for each in changes], session=client.names(session)
    )
    done = yield from change(client, path("targets", "touches"), TouchedMany, body, key=key)
    for touched in done.items:
        _warn_of_session(touched)
    return done.items


def _warn_of_session(touched: Touched) -> None:
    if touched.held_in_session:
        log.warning(
            "%s is held in session %r and was touched without a session; pass session=%r, so that a touch by "
            "another session is noticed",
            touched.key,
            touched.held_in_session,
            touched.held_in_session,
        )


def get_target(session: Session, target: str) -> Flow[TargetState]:
    """Read a target: its version, who holds it, who touched it, what waits for it, what collided."""
    return (yield from fetch(session, path("targets", target), TargetState))


def targets(
    session: Session, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Touched]]:
    """List targets that were touched, by key."""
    query = {"prefix": prefix, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("targets"), Page[Touched], query))


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

    `Busy` if another caller is at it, `Ambiguous` if nobody knows whether it happened, `Conflict` if the id was used
    for another request or what it is for has moved, `Denied` if no `grant` (its `task`, `args`, perhaps
    `grant_id`) permits it.
    """
    body = given(
        wire_effects.BeginEffectBody,
        request_hash=request_hash,
        job_id=job_id,
        permit=permit,
        lease=lease,
        target=target,
        grant=grant,
        ttl_seconds=ttl_seconds,
    )
    return (yield from change(session, path("effects", action_id, "begin"), Effect, body, key=key))


def commit_effect(
    session: Session, action_id: str, fence: int, result: Any = None, *, key: str | None = None
) -> Flow[Effect]:
    """Say that it happened, with this result. `Conflict` (`fence_stale`) if it was settled without you."""
    body = wire_effects.CommitEffectBody(fence=fence, result=result)
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
    body = wire_effects.FailEffectBody(fence=fence, error=error, safe_to_retry=safe_to_retry)
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
    body = wire_effects.ResolveEffectBody(outcome=outcome, evidence=evidence, result=result)
    return (yield from change(session, path("effects", action_id, "resolve"), Effect, body, key=key))


def get_effect(session: Session, action_id: str) -> Flow[Effect]:
    """Read what became of an effect."""
    return (yield from fetch(session, path("effects", action_id), Effect))


def get_effect_result(session: Session, action_id: str) -> Flow[EffectResult]:
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
