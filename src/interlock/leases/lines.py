"""Who goes before whom: one line for a whole tree, in the order in which people came.

A place only holds up those who want something that it would exclude. Nobody overtakes, so somebody who wants
everything is not starved by a stream of leases on single things, nor the other way round; and because there is
one order, two waiters never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from interlock.leases.model import Mode, Place, path_of

# Wake-ups are hints: those further back look again by themselves.
_LOOKED_AT = 128


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants, and their place in line if they have one."""

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
    """The tickets that may try now that a resource has come free: nobody in the line goes before them."""
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
    """What the holder of a place in line listens on."""
    return f"lease:{ticket}"
