"""What several parties change: targets, who holds them, what waits for them, and what collided."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from interlock.wire.fields import (
    Body,
    Given,
    GivenReason,
    Number,
    Reason,
    Sometimes,
    TargetKey,
    Text,
    Version,
)


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a target."""

    actor: str
    kind: Given[str] = None
    version: str
    previous_version: str | None = None
    based_on: str | None = None
    summary: str = ""
    session: str = ""
    at: Given[datetime] = None
    conflict_id: str | None = None


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """A target as it stands; `conflict_id` if its last change collided with the work of another caller.

    `held_in_session` names the session that holds the target, if its own principal touched it without naming one:
    the touch was taken for the holder's. Name the session, so that a touch by another one is noticed.
    """

    key: str
    version: str
    touched_at: Given[datetime] = None
    touched_by: Given[str] = None
    conflict_id: str | None = None
    held_in_session: str = ""


class TouchedMany(msgspec.Struct, frozen=True, kw_only=True):
    """Targets as they stand, in the order in which they were named."""

    items: tuple[Touched, ...] = ()


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease on a target, or on everything around it."""

    principal: str
    lease_id: str
    resource: str
    mode: str = "exclusive"
    state: str
    session: str = ""
    purpose: str = ""
    since: Given[datetime] = None
    expires_at: Given[datetime] = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A job that would change a target; `drifted` if it was drafted for another version."""

    job_id: str
    state: str
    topic: str = ""
    submitted_by: Given[str] = None
    submitted_at: Given[datetime] = None
    version: str | None = None
    drifted: bool = False


class Competing(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a collision."""

    actor: str
    version: str | None = None
    at: Given[datetime] = None
    what: str = ""


class Affected(msgspec.Struct, frozen=True, kw_only=True):
    """What a collision concerns: `jobs` and `leases` are all of them (50 at most), `job` and `lease` the first."""

    job: str | None = None
    effect: str | None = None
    lease: str | None = None
    jobs: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A collision, and the safest next step. `count` is how often it happened while it was open.

    `safest_resolution` is the resolution that does the safest next step, or null if more is to be done than to resolve
    it. `would_carry_out` says by resolution what it would do now, of a conflict that is read while it is open.
    """

    id: str
    kind: str
    state: str
    target: str
    competing: tuple[Competing, ...] = ()
    affected: Affected = Affected()
    safest_next_step: str = ""
    safest_resolution: str | None = None
    would_carry_out: Sometimes[dict[str, tuple[str, ...]]] = {}
    prevention: str = ""
    opened_at: Given[datetime] = None
    count: int = 1
    last_seen_at: Given[datetime] = None
    resolution: str | None = None
    note: str = ""
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    carried_out: tuple[str, ...] = ()


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a target; `version` is null if nobody has reported one."""

    key: str
    version: str | None = None
    touched_at: datetime | None = None
    touched_by: str | None = None
    owner: Owner | None = None
    owners: tuple[Owner, ...] = ()
    touches: tuple[Touch, ...] = ()
    pending_approvals: tuple[Waiting, ...] = ()
    pending_jobs: tuple[Waiting, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps colliding: conflicts of one kind over one family of targets.

    `prevention` is the line of the runbook that would prevent them.
    """

    kind: str
    target_prefix: str
    conflicts: int = 0
    open: int = 0
    count: int = 0
    last_seen_at: Given[datetime] = None
    targets: tuple[str, ...] = ()
    prevention: str = ""


class Patterns(msgspec.Struct, frozen=True, kw_only=True):
    """The patterns among the newest conflicts, the most frequent first."""

    examined: int = 0
    items: tuple[Pattern, ...] = ()


class TouchBody(Body, frozen=True, kw_only=True):
    """`version` is yours: an etag, a digest, a number. `previous_version` is the one the change was made from.

    A holder whose lease was acquired in a `session` names it here too.
    """

    version: Version | Number
    previous_version: Text | Number | None = None
    summary: Reason = ""
    session: Text = ""


class ChangeBody(Body, frozen=True, kw_only=True):
    """One of several changes."""

    key: TargetKey
    version: Version | Number
    previous_version: Text | Number | None = None
    summary: Reason = ""


class TouchesBody(Body, frozen=True, kw_only=True):
    """Several changes, recorded together; each target at most once. `session` is the caller's, as in one touch."""

    changes: Annotated[list[ChangeBody], msgspec.Meta(min_length=1, max_length=100)]
    session: Text = ""


class ResolveConflictBody(Body, frozen=True, kw_only=True):
    """`note` says why, and is the evidence if an effect's outcome is settled by it."""

    resolution: Literal["keep_first", "keep_second", "merge", "retry", "discard"]
    note: GivenReason
