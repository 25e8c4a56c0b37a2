"""Conflicts: what collided, how it was settled, and what keeps colliding."""

from __future__ import annotations

from typing import Literal

from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import Page
from interlock.sdk.session import Session
from interlock.sdk.shared_work import Conflict, Patterns


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


def conflict(session: Session, conflict_id: str) -> Flow[Conflict]:
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
    body = {"resolution": resolution, "note": note}
    return (yield from change(session, path("conflicts", conflict_id, "resolve"), Conflict, body, key=key))


def conflict_patterns(session: Session, *, last: int | None = None) -> Flow[Patterns]:
    """See what keeps colliding among the newest conflicts, and what would prevent it."""
    return (yield from fetch(session, path("conflicts", "patterns"), Patterns, {"last": last}))
