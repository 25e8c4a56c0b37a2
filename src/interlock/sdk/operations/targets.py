"""Targets: report what you changed, and see who holds a target and what waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import Page
from interlock.sdk.session import Session
from interlock.sdk.shared_work import TargetState, Touched, TouchedMany


def touch(
    session: Session,
    target: str,
    version: str,
    *,
    previous_version: str | None = None,
    summary: str | None = None,
    key: str | None = None,
) -> Flow[Touched]:
    """Report that you changed a target to `version`: an etag, a digest or a number of your own.

    With `previous_version`, the one you started from, it is noticed if somebody changed it in between.
    """
    body = {"version": version, "previous_version": previous_version, "summary": summary}
    return (yield from change(session, path("targets", target, "touch"), Touched, body, key=key))


def touch_many(
    session: Session, changes: Sequence[Mapping[str, str]], *, key: str | None = None
) -> Flow[tuple[Touched, ...]]:
    """Report several changes as one: each a mapping with `key`, `version`, and the options of `touch`."""
    body = {"changes": [dict(each) for each in changes]}
    done = yield from change(session, path("targets", "touches"), TouchedMany, body, key=key)
    return done.items


def target(session: Session, target: str) -> Flow[TargetState]:
    """Read a target: its version, who holds it, who touched it, what waits for it, what collided."""
    return (yield from fetch(session, path("targets", target), TargetState))


def targets(
    session: Session, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Touched]]:
    """List targets that were touched, by key."""
    query = {"prefix": prefix, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("targets"), Page[Touched], query))
