"""The queue of callers that wait for a resource."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, micros
from interlock.rooms.leases.model import LEASES, Lease, Mode, Place, path_of

# Wake-ups are hints: those further back look again by themselves.
_LOOKED_AT = 128


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants, and its place in line if it has one."""

    principal: str
    resource: str
    mode: Mode
    ticket: str | None = None
    purpose: str = ""

    def is_at(self, place: Place) -> bool:
        """Whether this is the claim's own place: its ticket's, or the one kept for it by a hand-off."""
        if place.kept:
            return place.principal == self.principal and place.resource == self.resource
        return place.ticket == self.ticket

    def excludes(self, place: Place) -> bool:
        return Mode.EXCLUSIVE in (self.mode, place.mode) and overlaps(self.resource, place.resource)


def overlaps(resource: str, other: str) -> bool:
    """Whether two resources have something in common."""
    (path, tree), (other_path, other_tree) = path_of(resource), path_of(other)
    return (
        path == other_path
        or (tree and other_path.startswith(f"{path}/"))
        or (other_tree and path.startswith(f"{other_path}/"))
    )


def who_goes_before(line: Sequence[Place], claim: Claim) -> Place | None:
    """The first place in line that must be served before this claim, if there is one."""
    for place in line:
        if claim.is_at(place):
            return None
        is_kept_for_them = place.kept and place.principal == claim.principal
        if claim.excludes(place) and not is_kept_for_them:
            return place
    return None


def next_in_line(line: Sequence[Place], ended: str) -> list[str]:
    """The tickets that may try now that a resource is free: no caller in the line goes before them."""
    found: list[str] = []
    for place in islice(line, _LOOKED_AT):
        if place.kept or not overlaps(place.resource, ended):
            continue
        claim = Claim(
            principal=place.principal, resource=place.resource, mode=place.mode, ticket=place.ticket
        )
        if who_goes_before(line, claim) is None:
            found.append(place.ticket)
    return found


def ticket_topic(ticket: str) -> str:
    """The topic that wakes the holder of a place in line."""
    return f"lease:{ticket}"


# The character after "/": every path under `p` sorts between `p/` and `p0`.
_AFTER_SLASH = "0"
# A caller waiting for a lease ends it when it expires; the sweep, which takes locks in another order, comes after.
_GRACE = timedelta(seconds=1)


class LeasesUnder(Pick[Lease], frozen=True, kw_only=True):
    """Leases under a path that exclude one of this mode and are not ended yet; the longest time left comes first.

    Read without locking: a pick that locks skips rows that another transaction has locked, so it would miss a lease
    that is being renewed. Live ones come first; the second load locks overdue ones before they are ended.
    """

    kind = LEASES

    tenant: str
    path: str
    wanted: Mode
    own: bool = False

    @property
    def query(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - two queries, by the mode
        if self.wanted is Mode.EXCLUSIVE:
            return "leases.leases_under"
        return "leases.exclusive_leases_under"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "low": f"{self.path}/", "high": f"{self.path}{_AFTER_SLASH}"}

    def matches(self, record: Lease, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.is_held
            and record.resource.startswith(f"{self.path}/")
            and Mode.EXCLUSIVE in (record.mode, self.wanted)
        )

    def sort_key(self, record: Lease) -> Any:
        return (-micros(record.expires_at), record.id)


class OverdueLeases(Pick[Lease], frozen=True, kw_only=True):
    """Leases whose time has run out a while ago, in every tenant, the longest overdue first."""

    kind = LEASES
    query = "leases.overdue_leases"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now - _GRACE)}

    def matches(self, record: Lease, now: datetime) -> bool:
        return record.is_held and now - _GRACE >= record.expires_at

    def sort_key(self, record: Lease) -> Any:
        return (record.expires_at, record.tenant, record.id)
