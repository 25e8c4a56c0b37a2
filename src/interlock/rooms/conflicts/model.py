"""A conflict: who collided over what, what it affects, and the safest next step.

The next step is looked up in `SAFEST`, one line per kind, so that a reader can check why it was suggested. What a
resolution changes is looked up in `CARRIED_OUT`.

An actor that repeats the same mistake a hundred thousand times makes one conflict: while it is open, a group counts
the repeats of its kind, target and actor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record, micros
from interlock.kernel.refusal import Refusal

AFFECTED_MAX = 50


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


class FollowUp(StrEnum):
    """How a resolution is carried out on the job, effect or lease that it concerns."""

    RETRY_JOB = "retry_job"
    ASK_AGAIN = "ask_again"
    CANCEL_JOB = "cancel_job"
    RETRY_EFFECT = "retry_effect"
    SETTLE_LEASE = "settle_lease"
    END_LEASE = "end_lease"


# By resolution and by what is affected in which state; absent means: recorded, and nothing else happens. A lease
# is looked up as `conflict_detected` while this conflict is the one it is in, whatever its owner does meanwhile.
CARRIED_OUT: Mapping[tuple[Resolution, str, str], FollowUp] = {
    (Resolution.RETRY, "job", "FAILED"): FollowUp.RETRY_JOB,
    (Resolution.RETRY, "job", "APPROVAL"): FollowUp.ASK_AGAIN,
    (Resolution.RETRY, "job", "EXPIRED"): FollowUp.ASK_AGAIN,
    (Resolution.MERGE, "job", "APPROVAL"): FollowUp.ASK_AGAIN,
    **{
        (Resolution.DISCARD, "job", state): FollowUp.CANCEL_JOB
        for state in ("APPROVAL", "PENDING", "RUNNING", "FAILED")
    },
    (Resolution.RETRY, "effect", "AMBIGUOUS"): FollowUp.RETRY_EFFECT,
    **{
        (resolution, "lease", "conflict_detected"): FollowUp.SETTLE_LEASE
        for resolution in (Resolution.KEEP_FIRST, Resolution.KEEP_SECOND, Resolution.MERGE, Resolution.RETRY)
    },
    (Resolution.DISCARD, "lease", "conflict_detected"): FollowUp.END_LEASE,
}


# Collisions that leave it open whether an effect happened, so that the person who resolves them must say so.
_ABOUT_OUTCOMES = (ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING, ConflictKind.STALE_FENCE)


def follow_up_of(kind: ConflictKind, resolution: Resolution, affected: str, state: str) -> FollowUp | None:
    """How a resolution is carried out for a job, effect or lease in a state; None if it is only recorded."""
    if (kind, resolution) == (ConflictKind.STALE_FENCE, Resolution.DISCARD):
        # The late write was refused when it came. The job or lease belongs to its current owner.
        return None
    if affected == "effect" and kind not in _ABOUT_OUTCOMES:
        # It was refused before it began. That its outcome is unknown now has another cause.
        return None
    return CARRIED_OUT.get((resolution, affected, state))


class Advice(msgspec.Struct, frozen=True):
    """The safest next step, and what would prevent the conflict next time.

    `resolution` is the one that says and does so; None if a person must do more first than to say how it was settled.
    """

    next_step: str
    prevention: str
    resolution: Resolution | None = None


SAFEST: Mapping[ConflictKind, Advice] = {
    ConflictKind.STALE_FENCE: Advice(
        "discard the late writer's result; the current owner has the newer state",
        "renew before a third of the lease has passed, or ask for a longer lifetime",
        Resolution.DISCARD,
    ),
    ConflictKind.TARGET_CHANGED_AFTER_DRAFT: Advice(
        "read the new version and draft the change again",
        "lease the target while drafting, or draft against a narrower target",
    ),
    ConflictKind.APPROVAL_ON_OLD_VERSION: Advice(
        "refresh the approval, so that people decide on the new version",
        "ask for approval sooner after drafting, or use a shorter expiry",
        Resolution.RETRY,
    ),
    ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING: Advice(
        "find out from the remote side whether the effect happened, then resolve it with that evidence",
        "renew the lease while the effect runs, or give it a longer lifetime",
    ),
    ConflictKind.DUPLICATE_WORK: Advice(
        "keep the first actor's version and let the second start again from it",
        "take a lease before starting, or send such work through one queue",
        Resolution.KEEP_FIRST,
    ),
    ConflictKind.APPROVE_REJECT_RACE: Advice(
        "the first decision stands; talk to the other reviewer before doing anything else",
        "ask one group, or raise the quorum, so that reviewers see each other's votes",
        Resolution.KEEP_FIRST,
    ),
    ConflictKind.HUMAN_EDIT_DURING_LEASE: Advice(
        "keep the person's edit; the lease holder reads it and goes on from there",
        "lease narrower targets for shorter times, and show people who holds what",
        Resolution.KEEP_SECOND,
    ),
}


class Competing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a collision."""

    actor: str
    version: str | None = None
    at: datetime
    what: str = ""


class Affected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which job, effect or lease it concerns. `jobs` and `leases` are all of them, where there is more than one."""

    job: str | None = None
    effect: str | None = None
    lease: str | None = None
    jobs: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()

    @property
    def every_job(self) -> tuple[str, ...]:
        return self.jobs or ((self.job,) if self.job else ())

    @property
    def every_lease(self) -> tuple[str, ...]:
        return self.leases or ((self.lease,) if self.lease else ())


def affecting(*, jobs: Sequence[str] = (), leases: Sequence[str] = ()) -> Affected:
    """What a collision concerns, when it may be several jobs and leases; the first of each is named by itself."""
    return Affected(
        job=jobs[0] if jobs else None,
        lease=leases[0] if leases else None,
        jobs=tuple(jobs[:AFFECTED_MAX]) if len(jobs) > 1 else (),
        leases=tuple(leases[:AFFECTED_MAX]) if len(leases) > 1 else (),
    )


class Conflict(Record, frozen=True, kw_only=True):
    """One collision, open until a person says how it was settled. `group` counts its repeats, if it has any."""

    kind: ConflictKind
    state: ConflictState = ConflictState.OPEN
    target: str
    competing: tuple[Competing, ...]
    affected: Affected = Affected()
    safest_next_step: str
    opened_at: datetime
    group: str | None = None
    count: int = 1
    last_seen_at: datetime | None = None
    resolution: Resolution | None = None
    note: str = ""
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    carried_out: tuple[FollowUp, ...] = ()

    def has_seen(self, begun_at: datetime) -> bool:
        """Whether it is about an attempt that began at that time; later attempts do not concern it."""
        return begun_at <= (self.last_seen_at or self.opened_at)


class RepeatGroup(Record, frozen=True, kw_only=True):
    """Repeats of one kind, target and actor: the open conflict that stands for them, and how many there were.

    It ends when the conflict is resolved; what comes later is a new conflict.
    """

    conflict_id: str
    last_seen_at: datetime
    count: int = 1


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """The fields by which a collision counts as a repeat of an earlier one."""

    tenant: str
    kind: ConflictKind
    target: str
    actor: str = ""

    @property
    def group_id(self) -> str:
        said = "\0".join((self.kind.value, self.target, self.actor))
        return hashlib.sha256(said.encode()).hexdigest()


CONFLICTS = Kind(
    "conflict",
    Conflict,
    table="conflicts",
    columns=("state", "kind", "target"),
    values=lambda conflict: (conflict.state, conflict.kind, conflict.target),
)
GROUPS = Kind(
    # Locks are taken in the order of the kinds' names. A refusal locks its group after all others, so it is last.
    "unsettled_conflicts",
    RepeatGroup,
    table="conflict_groups",
    columns=("conflict_id", "repeats", "last_seen_at"),
    values=lambda group: (group.conflict_id, group.count, micros(group.last_seen_at)),
)


class AlreadyResolved(Refusal):
    def __init__(self, conflict_id: str, by: str, at: datetime | None, resolution: str) -> None:
        super().__init__(
            f"conflict {conflict_id} was resolved by {by} as '{resolution}'; nothing is left to do"
        )
        self.state = "resolved"
        self.by, self.at = by, at
