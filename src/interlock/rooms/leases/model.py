"""Leases on resources, the nodes that order them, and why a lease cannot be acquired or used.

A resource is any string. `/` makes it a path: a lease on `repo:billing/**` covers everything under `repo:billing`.
Each path has a node, a record that every acquisition on it or under it owns, so two servers cannot both find it free.
The node of a path's first part, its top, also keeps what the whole tree shares: the highest fence, and one queue, so
that a caller who wants the whole tree and one who wants a single file are served in order of arrival.

A new fence is greater than the last one and than the store's floor, and at least its clock in microseconds. So
fences grow even if the store is restored to an older state and no one notices: no caller acquires a million times
a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Reads, Record, micros
from interlock.kernel.refusal import Next, Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require

TREE = "/**"
NULL = msgspec.Raw(b"null")


class Mode(StrEnum):
    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class LeaseState(StrEnum):
    CLAIMED = "claimed"
    LEASED = "leased"
    WAITING_ON_REVIEW = "waiting_on_review"
    APPLYING = "applying"
    STALE = "stale"
    CONFLICT_DETECTED = "conflict_detected"
    HANDED_OFF = "handed_off"
    RELEASED = "released"


_HOLDING = (
    LeaseState.CLAIMED,
    LeaseState.LEASED,
    LeaseState.WAITING_ON_REVIEW,
    LeaseState.APPLYING,
    LeaseState.CONFLICT_DETECTED,
)
_ACTIVE = (LeaseState.CLAIMED, LeaseState.LEASED, LeaseState.APPLYING, LeaseState.CONFLICT_DETECTED)

TRANSITIONS: Mapping[tuple[LeaseState, str], LeaseState] = {
    (LeaseState.CLAIMED, "renew"): LeaseState.LEASED,
    (LeaseState.WAITING_ON_REVIEW, "renew"): LeaseState.WAITING_ON_REVIEW,
    (LeaseState.LEASED, "renew"): LeaseState.LEASED,
    (LeaseState.APPLYING, "renew"): LeaseState.APPLYING,
    (LeaseState.CONFLICT_DETECTED, "renew"): LeaseState.CONFLICT_DETECTED,
    **{(state, "suspend"): LeaseState.WAITING_ON_REVIEW for state in _ACTIVE},
    (LeaseState.WAITING_ON_REVIEW, "resume"): LeaseState.LEASED,
    (LeaseState.WAITING_ON_REVIEW, "resume_in_conflict"): LeaseState.CONFLICT_DETECTED,
    (LeaseState.CONFLICT_DETECTED, "resume_in_conflict"): LeaseState.CONFLICT_DETECTED,
    (LeaseState.CLAIMED, "apply"): LeaseState.APPLYING,
    (LeaseState.LEASED, "apply"): LeaseState.APPLYING,
    (LeaseState.APPLYING, "apply"): LeaseState.APPLYING,
    (LeaseState.CONFLICT_DETECTED, "apply"): LeaseState.APPLYING,
    (LeaseState.APPLYING, "applied"): LeaseState.LEASED,
    (LeaseState.APPLYING, "applied_in_conflict"): LeaseState.CONFLICT_DETECTED,
    (LeaseState.CONFLICT_DETECTED, "settle"): LeaseState.LEASED,
    (LeaseState.CONFLICT_DETECTED, "settle_suspended"): LeaseState.WAITING_ON_REVIEW,
    (LeaseState.WAITING_ON_REVIEW, "settle_suspended"): LeaseState.WAITING_ON_REVIEW,
    (LeaseState.APPLYING, "settle"): LeaseState.APPLYING,
    (LeaseState.APPLYING, "settle_suspended"): LeaseState.APPLYING,
    **{(state, "touch"): LeaseState.CONFLICT_DETECTED for state in _HOLDING},
    **{(state, "hand_off"): LeaseState.HANDED_OFF for state in _HOLDING},
    **{(state, "release"): LeaseState.RELEASED for state in _HOLDING},
    **{(state, "expire"): LeaseState.STALE for state in _HOLDING},
}


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's progress: what a successor needs to go on."""

    number: int
    at: datetime
    by: str
    done: msgspec.Raw
    partial: msgspec.Raw = NULL
    evidence: msgspec.Raw = NULL
    validation: msgspec.Raw = NULL
    open_questions: msgspec.Raw = NULL


class SavedCheckpoint(Record, frozen=True, kw_only=True):
    """One of the last checkpoints of a lease, kept for reading after newer ones have replaced it."""

    lease_id: str
    checkpoint: Checkpoint


class Lease(Record, frozen=True, kw_only=True):
    """One owner's hold on one resource.

    `checkpoint` is the last one known of the resource: until the owner saves one, it is the predecessor's.
    """

    resource: str
    mode: Mode
    state: LeaseState
    fence: int
    owner: str
    session: str = ""
    purpose: str = ""
    ttl_seconds: int | float
    since: datetime
    expires_at: datetime
    renewals: int = 0
    renewals_without_progress: int = 0
    progress: msgspec.Raw = NULL
    suspended_for: str = ""
    suspended_at: datetime | None = None
    suspended_seconds: float = 0.0
    conflict_id: str | None = None
    predecessor: str | None = None
    checkpoint: Checkpoint | None = None
    ended_at: datetime | None = None
    handed_to: str | None = None

    def is_live_at(self, now: datetime) -> bool:
        """Whether it still holds its resource by this clock."""
        return self.state in _HOLDING and now < self.expires_at

    def state_at(self, now: datetime) -> LeaseState:
        """The state by the clock: a lease past its time is stale even if no sweep has run."""
        overdue = self.state in _HOLDING and now >= self.expires_at
        return LeaseState.STALE if overdue else self.state

    @property
    def is_held(self) -> bool:
        return self.state in _HOLDING

    def is_in_conflict_at(self, now: datetime, conflict_id: str) -> bool:
        """Whether this is the conflict that its owner learned last, or will learn at its next call."""
        return self.conflict_id == conflict_id and self.is_live_at(now)

    def is_of(self, session: str) -> bool:
        """Whether a call in this session is the holder's; a lease without a session is all of its owner's."""
        return self.session in ("", session)

    @property
    def holder(self) -> str:
        """Its owner, and the session if it is held in one: what is shown where two of them meet."""
        return f"{self.owner} (session {self.session})" if self.session else self.owner

    def covers(self, key: str) -> bool:
        """Whether a target is the lease's resource, or lies under it."""
        path, is_tree = path_of(self.resource)
        return key == path or (is_tree and key.startswith(f"{path}/"))


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A live lease as its node sees it; `tree` if it covers what lies under the node."""

    lease_id: str
    mode: Mode
    tree: bool = False


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the line. It holds only while its waiter keeps coming back.

    After a hand-off to a principal, `kept` holds a place for that principal at the front; it has no ticket.
    """

    principal: str
    resource: str
    mode: Mode
    since: datetime
    expires_at: datetime
    ticket: str = ""
    purpose: str = ""
    kept: bool = False


class Node(Record, frozen=True, kw_only=True):
    """One path: its fence, who holds it, and which lease ended last. At the top of a tree, who waits in it."""

    fence: int = 0
    holders: tuple[Holder, ...] = ()
    line: tuple[Place, ...] = ()
    last_lease: str | None = None

    def waiting_at(self, now: datetime) -> tuple[Place, ...]:
        return tuple(place for place in self.line if place.expires_at > now)


class LeaseTerms(Record, frozen=True, kw_only=True):
    """A tenant's rules for lease holders. After `progress_after` renewals without progress, none is granted."""

    ttl_seconds_max: int = 3600
    suspend_seconds_max: int = 86_400
    progress_after: int | None = None


TERMS_ID = "terms"

LEASES = Kind(
    "lease",
    Lease,
    table="leases",
    columns=("resource", "owner", "state", "mode", "live_until"),
    values=lambda lease: (
        lease.resource,
        lease.owner,
        lease.state,
        lease.mode,
        micros(lease.expires_at) if lease.is_held else None,
    ),
)
NODES = Kind(
    "lease_node", Node, table="lease_nodes", columns=("waiting",), values=lambda node: (len(node.line),)
)
TERMS = Kind("lease_terms", LeaseTerms, table="lease_terms")
CHECKPOINTS = Kind(
    "lease_checkpoint",
    SavedCheckpoint,
    table="lease_checkpoints",
    columns=("lease", "number"),
    values=lambda saved: (saved.lease_id, saved.checkpoint.number),
)


def path_of(resource: str) -> tuple[str, bool]:
    """The node of a resource, and whether the resource is everything under it."""
    if resource.endswith(TREE):
        return resource.removesuffix(TREE), True
    return resource, False


def ancestors_of(path: str) -> tuple[str, ...]:
    """Every path that this one lies under, from the top down."""
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts)))


def top_of(path: str) -> str:
    """The path under which the whole tree of this one lies: its first part."""
    return path.split("/", 1)[0]


def conflicts(held: Holder, wanted: Mode) -> bool:
    """Two leases exclude each other unless both are shared."""
    return held.mode is Mode.EXCLUSIVE or wanted is Mode.EXCLUSIVE


class SetLeaseTerms(Command[LeaseTerms], frozen=True, kw_only=True):
    """Change a tenant's rules for lease holders."""

    caller: Caller
    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(TERMS.key(self.caller.tenant, TERMS_ID),))

    def decide(self, world: World) -> LeaseTerms:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        terms = LeaseTerms(
            tenant=self.caller.tenant,
            id=TERMS_ID,
            ttl_seconds_max=self.ttl_seconds_max,
            suspend_seconds_max=self.suspend_seconds_max,
            progress_after=self.progress_after,
        )
        details = {
            "ttl_seconds_max": self.ttl_seconds_max,
            "suspend_seconds_max": self.suspend_seconds_max,
            "progress_after": self.progress_after,
        }
        note(
            world,
            Author(tenant=terms.tenant, principal=by.id, request_id=self.caller.request_id),
            "lease_terms_set",
            "leases",
            details=details,
        )
        return world.put(TERMS, terms)


_WAIT_SECONDS = 30


class HolderSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds it, or goes first, as shown to others. A caller that has yet to take it has no `lease_id`."""

    principal: str
    purpose: str
    since: datetime
    expires_at: datetime
    lease_id: str | None
    resource: str
    session: str = ""


class LeaseHeld(Refusal):
    """Another holder has it, another caller is in line before you, or it is kept for a principal."""

    def __init__(
        self, resource: str, holder: HolderSeen | None, retry_after_seconds: float, why: str
    ) -> None:
        super().__init__(f"{resource} {why}; wait in line, or retry in {retry_after_seconds:.1f} s")
        self.next = Next("acquire_lease", {"resource": resource, "wait_seconds": _WAIT_SECONDS})
        self.holder = holder
        self.retry_after_seconds = retry_after_seconds


class LeaseFenceStale(Refusal):
    """The caller does not hold the lease under this fence, or no longer does. `holder` holds its resource now."""

    def __init__(self, lease_id: str, *, state: str, holder: str | None, session: str | None = None) -> None:
        why = f"is {state}, and this fence does not hold it"
        if session is not None:
            why = f"was acquired in session {session}, and the call of another session does not hold it"
        super().__init__(f"lease {lease_id} {why}. Stop writing, and acquire it again")
        self.state, self.holder = state, holder
        self.conflict_id: str | None = None


class LeaseSessionMissing(Refusal):
    """The holder's own call, without the session of its lease. That is no collision, and nothing is recorded."""

    def __init__(self, lease_id: str, session: str) -> None:
        super().__init__(
            f"lease {lease_id} was acquired in session {session}, and this call names no session; "
            "name the same session with every call for this lease"
        )
        self.session = session


class LeaseNotActionable(Refusal):
    def __init__(self, lease_id: str, state: str, verb: str) -> None:
        super().__init__(f"lease {lease_id} is {state}, so it cannot {verb}; read what became of it")
        self.next = Next("get_lease", {"lease_id": lease_id})
        self.state = state


class ProgressRequired(Refusal):
    def __init__(self, lease_id: str, renewals: int) -> None:
        super().__init__(
            f"lease {lease_id} was renewed {renewals} times without progress; send progress or a checkpoint, "
            "or release it"
        )
        self.state = "no_progress"


class ResourceTooDeep(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__(f"a resource has at most {most} parts between slashes; use a shorter name")


class ResourceUnclear(Refusal):
    def __init__(self, resource: str) -> None:
        super().__init__(
            f"{resource}: `**` may stand only at the end, after a slash: `path/**` is everything under a path"
        )


class CheckpointTooLarge(Refusal):
    def __init__(self, bytes_found: int, bytes_max: int) -> None:
        super().__init__(
            f"this takes {bytes_found} bytes and may take {bytes_max}; keep the bulk elsewhere and send a "
            "reference and its hash"
        )
        self.limit_bytes = bytes_max
