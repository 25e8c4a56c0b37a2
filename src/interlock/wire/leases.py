"""Leases, what their owners left, and who waits for one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from interlock.wire.fields import Body, Fence, Given, Sometimes, Spelled, Text, TtlSeconds


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
    """A place in line; a `kept` one is held for the principal to whom the resource was handed."""

    resource: str
    principal: str
    mode: str = "exclusive"
    since: Given[datetime] = None
    purpose: str = ""
    kept: bool = False


class Waiters(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody in line."""

    items: tuple[Waiter, ...] = ()


Resource = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\u0000-\u001f]*$(?!\n)")]


class AcquireLeaseBody(Body, frozen=True, kw_only=True):
    """With `wait_seconds` the caller waits in line. `session` tells apart several workers of one principal."""

    resource: Resource
    purpose: Text = ""
    mode: Literal["exclusive", "shared"] = "exclusive"
    ttl_seconds: TtlSeconds = 60
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0
    session: Text = ""


class CheckFenceBody(Body, frozen=True, kw_only=True):
    """The fence that a writer presented."""

    fence: Fence


class LeaseFenceBody(CheckFenceBody, frozen=True, kw_only=True):
    """Send the `session` again if the lease was acquired with one."""

    session: Text = ""


class ResumeLeaseBody(Body, frozen=True, kw_only=True):
    """Only the owner can resume, so the fence may be left out; one that is sent must be current."""

    fence: Fence | None = None
    session: Text = ""


class RenewLeaseBody(LeaseFenceBody, frozen=True, kw_only=True):
    progress: Spelled = None


class CheckpointBody(LeaseFenceBody, frozen=True, kw_only=True):
    """What is done, what is half done, and what a successor should know."""

    done: Spelled
    partial: Spelled = None
    evidence: Spelled = None
    validation: Spelled = None
    open_questions: Spelled = None


class SuspendLeaseBody(LeaseFenceBody, frozen=True, kw_only=True):
    reason: Literal["waiting_on_review", "paused_by_policy"]


class HandOffLeaseBody(LeaseFenceBody, frozen=True, kw_only=True):
    """Without `to`, the next caller that asks gets it. `checkpoint` is what they start from.

    It is an object with `done` and the other fields of a checkpoint, or any value, which then is what is done.
    """

    to: Text | None = None
    checkpoint: Any = None


class LeaseTermsBody(Body, frozen=True, kw_only=True):
    """`progress_after`: how often a lease may be renewed without progress; null for any number."""

    ttl_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3600
    suspend_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=7 * 86_400)] = 86_400
    progress_after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
