"""What the service answers about effects, targets and conflicts, as types; as open as those in `models`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.sdk.models import Target, Touch


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is too large to come along; `effect_result` reads it."""

    digest: str
    size: int
    pointer: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Who said what had become of an effect, and how they knew."""

    outcome: str
    by: str | None = None
    at: datetime | None = None
    evidence: Any = None


class GrantUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a grant that permits an effect."""

    id: str
    task: str
    use: int = 0


class LeaseUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that an effect was begun under. `fence` is 0 unless you began it."""

    id: str
    fence: int = 0
    resource: str = ""
    session: str = ""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One action and what became of it: `IN_PROGRESS`, `COMMITTED`, `FAILED` or `AMBIGUOUS`.

    `downstream_key` is the same for every attempt: pass it to the remote side. `replayed` says that it was
    done before, so that there is nothing to do. `fence` is 0 unless you began it.
    """

    action_id: str
    state: str
    fence: int = 0
    downstream_key: str = ""
    request_hash: str = ""
    begun_by: str | None = None
    first_begun_at: datetime | None = None
    begun_at: datetime | None = None
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    result: Any = None
    stored_result: StoredResult | None = None
    error: Any = None
    doubt: str | None = None
    job_id: str | None = None
    job_hash: str | None = None
    lease: LeaseUsed | None = None
    target: Target | None = None
    grant: GrantUsed | None = None
    resolved: Resolved | None = None
    replayed: bool = False


class EffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result of an effect."""

    result: Any = None
    digest: str | None = None
    size: int = 0


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """A target as it stands; `conflict_id` if its last change collided with somebody's work."""

    key: str
    version: str
    touched_at: datetime | None = None
    touched_by: str | None = None
    conflict_id: str | None = None


class TouchedMany(msgspec.Struct, frozen=True, kw_only=True):
    """Targets as they stand, in the order in which they were named."""

    items: tuple[Touched, ...] = ()


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease on a target, or on everything around it."""

    principal: str
    lease_id: str
    resource: str
    state: str
    mode: str = "exclusive"
    purpose: str = ""
    since: datetime | None = None
    expires_at: datetime | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A job that would change a target; `drifted` if it was drafted for another version."""

    job_id: str
    state: str
    topic: str = ""
    submitted_by: str | None = None
    submitted_at: datetime | None = None
    version: str | None = None
    drifted: bool = False


class Competing(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a collision."""

    actor: str
    version: str | None = None
    at: datetime | None = None
    what: str = ""


class Affected(msgspec.Struct, frozen=True, kw_only=True):
    """Which job, effect or lease a collision concerns; `jobs` and `leases` are all of them."""

    job: str | None = None
    effect: str | None = None
    lease: str | None = None
    jobs: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A collision, and the safest next step. `count` is how often it happened while it was open."""

    id: str
    kind: str
    state: str
    target: str
    competing: tuple[Competing, ...] = ()
    affected: Affected = Affected()
    safest_next_step: str = ""
    prevention: str = ""
    opened_at: datetime | None = None
    count: int = 1
    last_seen_at: datetime | None = None
    resolution: str | None = None
    note: str = ""
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    carried_out: tuple[str, ...] = ()


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a target; `version` is None if nobody has reported one."""

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
    """What keeps colliding, and the line of the runbook that would prevent it."""

    kind: str
    target_prefix: str
    conflicts: int = 0
    open: int = 0
    count: int = 0
    last_seen_at: datetime | None = None
    targets: tuple[str, ...] = ()
    prevention: str = ""


class Patterns(msgspec.Struct, frozen=True, kw_only=True):
    """The patterns among the newest conflicts, the most frequent first."""

    items: tuple[Pattern, ...] = ()
    examined: int = 0
