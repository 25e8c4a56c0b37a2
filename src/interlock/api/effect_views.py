"""Effects as the API shows them."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec

from interlock.rooms.effects.model import Effect


class LeaseRefView(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that the effect was begun under. `fence` is shown to whoever began the effect alone."""

    id: str
    resource: str
    session: str
    fence: int | msgspec.UnsetType = msgspec.UNSET


class TargetRefView(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    version: str


class GrantRefView(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a grant that permits the effect."""

    id: str
    task: str
    use: int


class StoredResultView(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is too large to be shown here; read it at `pointer`."""

    digest: str
    size: int
    pointer: str


class ResolvedView(msgspec.Struct, frozen=True, kw_only=True):
    outcome: str
    by: str
    at: datetime
    evidence: msgspec.Raw


class EffectView(msgspec.Struct, frozen=True, kw_only=True):
    """An effect. `state` is by the clock: an attempt past its time is `AMBIGUOUS`.

    `fence` is shown to whoever began it alone.
    """

    action_id: str
    state: str
    downstream_key: str
    request_hash: str
    begun_by: str
    first_begun_at: datetime
    begun_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    result: msgspec.Raw
    stored_result: StoredResultView | None
    error: msgspec.Raw
    doubt: str | None
    job_id: str | None
    job_hash: str | None
    lease: LeaseRefView | None
    target: TargetRefView | None
    grant: GrantRefView | None
    resolved: ResolvedView | None
    replayed: bool = False
    fence: int | msgspec.UnsetType = msgspec.UNSET


class ResultView(msgspec.Struct, frozen=True, kw_only=True):
    digest: str | None
    size: int
    result: msgspec.Raw


def effect_view(
    effect: Effect, seen_by: str, now: datetime | None = None, *, replayed: bool = False
) -> EffectView:
    """An effect for `seen_by` as it was decided or, if it was only read, as it stands `now`."""
    target, said, is_own = effect.target, effect.resolved, effect.begun_by == seen_by
    return EffectView(
        action_id=effect.id,
        state=(effect.state_at(now) if now else effect.state).value,
        fence=effect.fence if is_own else msgspec.UNSET,
        downstream_key=effect.downstream_key,
        request_hash=effect.request_hash,
        begun_by=effect.begun_by,
        first_begun_at=effect.first_begun_at,
        begun_at=effect.begun_at,
        expires_at=effect.expires_at,
        ended_at=effect.ended_at,
        result=effect.result,
        stored_result=_stored_view(effect),
        error=effect.error,
        doubt=effect.doubt.value if effect.doubt else None,
        job_id=effect.job_id,
        job_hash=effect.job_hash,
        lease=_lease_view(effect, is_own=is_own),
        target=TargetRefView(key=target.key, version=target.version) if target else None,
        grant=_grant_view(effect),
        resolved=(
            ResolvedView(outcome=said.outcome.value, by=said.by, at=said.at, evidence=said.evidence)
            if said
            else None
        ),
        replayed=replayed,
    )


def _lease_view(effect: Effect, *, is_own: bool) -> LeaseRefView | None:
    lease = effect.lease
    if lease is None:
        return None
    fence = lease.fence if is_own else msgspec.UNSET
    return LeaseRefView(id=lease.id, fence=fence, resource=lease.resource, session=lease.session)


def _grant_view(effect: Effect) -> GrantRefView | None:
    grant = effect.grant
    return GrantRefView(id=grant.id, task=grant.task, use=grant.use) if grant else None


def _stored_view(effect: Effect) -> StoredResultView | None:
    stored = effect.stored_result
    if stored is None:
        return None
    pointer = f"/api/v1/effects/{quote(effect.id, safe='')}/result"
    return StoredResultView(digest=stored.digest, size=stored.size, pointer=pointer)
