"""Leases on resources, and the nodes that keep their order.

A resource is any string. `/` makes it a path: a lease on `repo:billing/**` covers everything under
`repo:billing`. Each path has a node, a record that every acquisition on it or under it owns, so two servers
cannot both find it free. A node keeps the fence, which only grows, the line of those who wait, and the
reservation of a hand-off.

Fences come from the clock and from the last fence, whichever is ahead. So they keep growing even if the store
is restored from an older copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record, micros

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
    (LeaseState.LEASED, "renew"): LeaseState.LEASED,
    (LeaseState.APPLYING, "renew"): LeaseState.APPLYING,
    (LeaseState.CONFLICT_DETECTED, "renew"): LeaseState.CONFLICT_DETECTED,
    **{(state, "suspend"): LeaseState.WAITING_ON_REVIEW for state in _ACTIVE},
    (LeaseState.WAITING_ON_REVIEW, "resume"): LeaseState.LEASED,
    (LeaseState.CLAIMED, "apply"): LeaseState.APPLYING,
    (LeaseState.LEASED, "apply"): LeaseState.APPLYING,
    (LeaseState.APPLYING, "apply"): LeaseState.APPLYING,
    (LeaseState.CONFLICT_DETECTED, "apply"): LeaseState.APPLYING,
    (LeaseState.APPLYING, "applied"): LeaseState.LEASED,
    (LeaseState.CONFLICT_DETECTED, "settle"): LeaseState.LEASED,
    **{(state, "touch"): LeaseState.CONFLICT_DETECTED for state in _HOLDING},
    **{(state, "hand_off"): LeaseState.HANDED_OFF for state in _HOLDING},
    **{(state, "release"): LeaseState.RELEASED for state in _HOLDING},
    **{(state, "expire"): LeaseState.STALE for state in _HOLDING},
}


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the owner got: what a successor needs to go on."""

    number: int
    at: datetime
    by: str
    done: msgspec.Raw
    partial: msgspec.Raw = NULL
    evidence: msgspec.Raw = NULL
    validation: msgspec.Raw = NULL
    open_questions: msgspec.Raw = NULL


class Lease(Record, frozen=True, kw_only=True):
    """One owner's hold on one resource."""

    resource: str
    mode: Mode
    state: LeaseState
    fence: int
    owner: str
    session: str = ""
    purpose: str = ""
    ttl_seconds: int
    since: datetime
    expires_at: datetime
    renewals: int = 0
    renewals_without_progress: int = 0
    progress: msgspec.Raw = NULL
    suspended_for: str = ""
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


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A live lease as its node sees it; `tree` if it covers what lies under the node."""

    lease_id: str
    mode: Mode
    tree: bool = False


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the line. It holds only while its waiter keeps coming back."""

    ticket: str
    principal: str
    mode: Mode
    tree: bool = False
    since: datetime
    expires_at: datetime


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """After a hand-off: for whom the resource is kept, and until when."""

    principal: str
    expires_at: datetime


class Node(Record, frozen=True, kw_only=True):
    """One path: its fence, who holds it, who waits, and whom it is kept for."""

    fence: int = 0
    holders: tuple[Holder, ...] = ()
    line: tuple[Place, ...] = ()
    reserved: Reservation | None = None
    last_lease: str | None = None

    def waiting_at(self, now: datetime) -> tuple[Place, ...]:
        return tuple(place for place in self.line if place.expires_at > now)

    def next_fence(self, now: datetime) -> int:
        """Greater than every fence before, also after a restore from an older copy."""
        return max(self.fence + 1, micros(now) // 1000)


class LeaseTerms(Record, frozen=True, kw_only=True):
    """What a tenant asks of lease holders. `progress_after` renewals without progress end the patience."""

    ttl_seconds_max: int = 3600
    suspend_seconds_max: int = 86_400
    progress_after: int | None = None


TERMS_ID = "terms"

LEASES = Kind(
    "lease",
    Lease,
    table="leases",
    columns={
        "resource": lambda lease: lease.resource,
        "owner": lambda lease: lease.owner,
        "state": lambda lease: lease.state.value,
        "live_until": lambda lease: micros(lease.expires_at) if lease.is_held else None,
    },
)
NODES = Kind("lease_node", Node, table="lease_nodes", columns={"waiting": lambda node: len(node.line)})
TERMS = Kind("lease_terms", LeaseTerms, table="lease_terms")


def path_of(resource: str) -> tuple[str, bool]:
    """The node of a resource, and whether the resource is everything under it."""
    if resource.endswith(TREE):
        return resource.removesuffix(TREE), True
    return resource, False


def ancestors_of(path: str) -> tuple[str, ...]:
    """Every path that this one lies under, from the top down."""
    parts = path.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts)))


def lease_topic(tenant: str, path: str) -> str:
    """What those who wait for something under the same top listen on."""
    return f"lease:{tenant}:{path.split('/', 1)[0]}"


def conflicts(held: Holder, wanted: Mode) -> bool:
    """Two leases exclude each other unless both are shared."""
    return held.mode is Mode.EXCLUSIVE or wanted is Mode.EXCLUSIVE
