"""Leases, what their owners left, and who waits for one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.wire.marks import Given, Sometimes


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far an owner got."""

    number: int
    at: Given[datetime] = None
    by: Given[str] = None
    done: Any = None
    partial: Any = None
    evidence: Any = None
    validation: Any = None
    open_questions: Any = None


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The last checkpoints of a lease, newest first."""

    items: tuple[Checkpoint, ...] = ()


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """Who had the resource before, how that ended, and how far they got."""

    lease_id: Given[str] = None
    owner: str
    ended: str
    ended_at: datetime | None = None
    checkpoint: Checkpoint | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's hold on one resource. `state` is by the clock: past `expires_at` it is `stale`.

    `fence` is told to the owner alone.
    """

    lease_id: str
    resource: str
    mode: str = "exclusive"
    state: str
    owner: str
    session: str = ""
    purpose: str = ""
    ttl_seconds: int | float = 60
    since: Given[datetime] = None
    expires_at: Given[datetime] = None
    renewals: int = 0
    progress: Any = None
    suspended_for: str = ""
    suspended_at: datetime | None = None
    conflict_id: str | None = None
    checkpoint: Checkpoint | None = None
    ended_at: datetime | None = None
    handed_to: str | None = None
    predecessor: Predecessor | None = None
    fence: Sometimes[int] = 0


class CheckedFence(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a sink may write under this fence, and whose the resource is.

    `current_fence` is told to the lease's owner alone.
    """

    current: bool
    state: str
    fence: int = 0
    owner: Given[str] = None
    expires_at: Given[datetime] = None
    current_fence: Sometimes[int] = 0


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How long a tenant's leases may last, and after how many renewals an owner must show progress."""

    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None = None


class Waiter(msgspec.Struct, frozen=True, kw_only=True):
    """A place in line; a `kept` one is held for somebody to whom the resource was handed."""

    resource: str
    principal: str
    mode: str = "exclusive"
    since: Given[datetime] = None
    purpose: str = ""
    kept: bool = False


class Waiters(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody in line."""

    items: tuple[Waiter, ...] = ()
