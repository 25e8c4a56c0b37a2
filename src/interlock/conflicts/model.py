"""A conflict: who collided over what, what it touches, and the safest next step.

The next step is looked up in `SAFEST`, one line a kind, so that a reader can check why it was suggested.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record


class ConflictKind(StrEnum):
    STALE_FENCE = "stale_fence"
    TARGET_CHANGED_AFTER_DRAFT = "target_changed_after_draft"
    APPROVAL_ON_OLD_VERSION = "approval_on_old_version"
    LEASE_EXPIRED_WITH_RESULT_PENDING = "lease_expired_with_result_pending"
    DUPLICATE_WORK = "duplicate_work"
    APPROVE_REJECT_RACE = "approve_reject_race"
    HUMAN_EDIT_DURING_LEASE = "human_edit_during_lease"


class ConflictState(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


TRANSITIONS: Mapping[tuple[ConflictState, str], ConflictState] = {
    (ConflictState.OPEN, "resolve"): ConflictState.RESOLVED,
}


class Resolution(StrEnum):
    KEEP_FIRST = "keep_first"
    KEEP_SECOND = "keep_second"
    MERGE = "merge"
    RETRY = "retry"
    DISCARD = "discard"


class Advice(msgspec.Struct, frozen=True):
    """What is safest now, and what would prevent it the next time."""

    next_step: str
    prevention: str


SAFEST: Mapping[ConflictKind, Advice] = {
    ConflictKind.STALE_FENCE: Advice(
        "discard the late writer's result; the current owner has the newer state",
        "renew before a third of the lease has passed, or ask for a longer lifetime",
    ),
    ConflictKind.TARGET_CHANGED_AFTER_DRAFT: Advice(
        "read the new version and draft the change again",
        "lease the target while drafting, or draft against a narrower target",
    ),
    ConflictKind.APPROVAL_ON_OLD_VERSION: Advice(
        "refresh the approval, so that people decide on the new version",
        "ask for approval sooner after drafting, or use a shorter expiry",
    ),
    ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING: Advice(
        "find out from the remote side whether the effect happened, then resolve it with that evidence",
        "renew the lease while the effect runs, or give it a longer lifetime",
    ),
    ConflictKind.DUPLICATE_WORK: Advice(
        "keep the first actor's version and let the second start again from it",
        "take a lease before starting, or send such work through one queue",
    ),
    ConflictKind.APPROVE_REJECT_RACE: Advice(
        "the first decision stands; talk to the other reviewer before doing anything else",
        "ask one group, or raise the quorum, so that reviewers see each other's votes",
    ),
    ConflictKind.HUMAN_EDIT_DURING_LEASE: Advice(
        "keep the person's edit; the lease holder reads it and goes on from there",
        "lease narrower targets for shorter times, and show people who holds what",
    ),
}


class Competing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a collision."""

    actor: str
    version: str | None = None
    at: datetime
    what: str = ""


class Affected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which job, effect or lease it concerns."""

    job: str | None = None
    effect: str | None = None
    lease: str | None = None


class Conflict(Record, frozen=True, kw_only=True):
    """One collision, open until somebody says how it was settled."""

    kind: ConflictKind
    state: ConflictState = ConflictState.OPEN
    target: str
    competing: tuple[Competing, ...]
    affected: Affected = Affected()
    safest_next_step: str
    opened_at: datetime
    resolution: Resolution | None = None
    note: str = ""
    resolved_by: str | None = None
    resolved_at: datetime | None = None


CONFLICTS = Kind(
    "conflict",
    Conflict,
    table="conflicts",
    columns={
        "state": lambda conflict: conflict.state.value,
        "kind": lambda conflict: conflict.kind.value,
        "target": lambda conflict: conflict.target,
    },
)
