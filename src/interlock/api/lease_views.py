"""Leases as answers show them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.rooms.leases.acquisition import Acquired
from interlock.rooms.leases.model import Checkpoint, Lease, LeaseTerms
from interlock.rooms.leases.rules import Checked


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: datetime
    by: str
    done: msgspec.Raw
    partial: msgspec.Raw
    evidence: msgspec.Raw
    validation: msgspec.Raw
    open_questions: msgspec.Raw


class PredecessorView(msgspec.Struct, frozen=True, kw_only=True):
    """Who had it before, how it ended, and how far they got."""

    lease_id: str
    owner: str
    ended: str
    ended_at: datetime | None
    checkpoint: CheckpointView | None


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """A lease. `state` is by the clock: past `expires_at` it is `stale`. `fence` is shown to its owner alone."""

    lease_id: str
    resource: str
    mode: str
    state: str
    owner: str
    session: str
    purpose: str
    ttl_seconds: int | float
    since: datetime
    expires_at: datetime
    renewals: int
    progress: msgspec.Raw
    suspended_for: str
    suspended_at: datetime | None
    conflict_id: str | None
    checkpoint: CheckpointView | None
    ended_at: datetime | None
    handed_to: str | None
    predecessor: PredecessorView | None = None
    fence: int | msgspec.UnsetType = msgspec.UNSET


class CheckedView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a sink may write under this fence. `current_fence` is shown to the lease's owner alone."""

    current: bool
    state: str
    fence: int
    owner: str
    expires_at: datetime
    current_fence: int | msgspec.UnsetType = msgspec.UNSET


class CheckpointsView(msgspec.Struct, frozen=True, kw_only=True):
    """The last checkpoints of a lease, newest first."""

    items: list[CheckpointView]


class TermsView(msgspec.Struct, frozen=True, kw_only=True):
    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None


class WaiterView(msgspec.Struct, frozen=True, kw_only=True):
    """A place in line; a `kept` one is held for somebody to whom the resource was handed."""

    resource: str
    principal: str
    mode: str
    since: datetime
    purpose: str
    kept: bool


class WaitersView(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WaiterView]


def acquired_view(got: Acquired) -> LeaseView:
    """What a new owner gets: the lease, and who had it before."""
    return lease_view(got.lease, got.predecessor)


def shown_view(lease: Lease, now: datetime, seen_by: str, predecessor: Lease | None = None) -> LeaseView:
    """A lease as `seen_by` sees it by this server's clock, which is only for showing."""
    fence = lease.fence if lease.owner == seen_by else msgspec.UNSET
    state = lease.state_at(now).value
    return msgspec.structs.replace(lease_view(lease, predecessor), state=state, fence=fence)


def lease_view(lease: Lease, predecessor: Lease | None = None) -> LeaseView:
    """A lease as its owner just decided it, by the store's clock."""
    return LeaseView(
        lease_id=lease.id,
        resource=lease.resource,
        mode=lease.mode.value,
        state=lease.state.value,
        fence=lease.fence,
        owner=lease.owner,
        session=lease.session,
        purpose=lease.purpose,
        ttl_seconds=lease.ttl_seconds,
        since=lease.since,
        expires_at=lease.expires_at,
        renewals=lease.renewals,
        progress=lease.progress,
        suspended_for=lease.suspended_for,
        suspended_at=lease.suspended_at,
        conflict_id=lease.conflict_id,
        checkpoint=checkpoint_view(lease.checkpoint),
        ended_at=lease.ended_at,
        handed_to=lease.handed_to,
        predecessor=_predecessor_view(predecessor),
    )


def _predecessor_view(lease: Lease | None) -> PredecessorView | None:
    if lease is None:
        return None
    return PredecessorView(
        lease_id=lease.id,
        owner=lease.owner,
        ended=lease.state.value,
        ended_at=lease.ended_at,
        checkpoint=checkpoint_view(lease.checkpoint),
    )


def checkpoint_view(saved: Checkpoint | None) -> CheckpointView | None:
    if saved is None:
        return None
    return CheckpointView(
        number=saved.number,
        at=saved.at,
        by=saved.by,
        done=saved.done,
        partial=saved.partial,
        evidence=saved.evidence,
        validation=saved.validation,
        open_questions=saved.open_questions,
    )


def checked_view(checked: Checked, fence: int, seen_by: str) -> CheckedView:
    return CheckedView(
        current=checked.current,
        state=checked.state.value,
        fence=fence,
        current_fence=checked.current_fence if checked.lease.owner == seen_by else msgspec.UNSET,
        owner=checked.lease.owner,
        expires_at=checked.lease.expires_at,
    )


def terms_view(terms: LeaseTerms) -> TermsView:
    return TermsView(
        ttl_seconds_max=terms.ttl_seconds_max,
        suspend_seconds_max=terms.suspend_seconds_max,
        progress_after=terms.progress_after,
    )
