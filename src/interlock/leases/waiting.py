"""Standing in line for a lease, and leaving the line."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from interlock.identity.model import Caller
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.leases.ending import node_at, wake_next
from interlock.leases.lines import Claim
from interlock.leases.model import NODES, Place, path_of, top_of

PLACE_SECONDS = 5
LINE_MAX = 1000


def stand_in_line(world: World, tenant: str, claim: Claim) -> None:
    """Take a place at the end of the line, or keep the one that the claim's ticket has."""
    top = node_at(world, tenant, top_of(path_of(claim.resource)[0]))
    line = top.waiting_at(world.now)
    known = next((place for place in line if place.ticket == claim.ticket), None)
    place = Place(
        ticket=claim.ticket or "",
        principal=claim.principal,
        resource=claim.resource,
        mode=claim.mode,
        purpose=claim.purpose,
        since=known.since if known else world.now,
        expires_at=world.now + timedelta(seconds=PLACE_SECONDS),
    )
    if known:
        line = tuple(place if each is known else each for each in line)
    elif len(line) < LINE_MAX:
        line = (*line, place)
    world.put(NODES, msgspec.structs.replace(top, line=line))


class LeaveLeaseLine(Command[None], frozen=True, kw_only=True):
    """Give up one's place in line; whoever stood behind may be next."""

    caller: Caller
    resource: str
    ticket: str

    def reads(self) -> Reads:
        return Reads(own=(NODES.key(self.caller.tenant, self._top),))

    def decide(self, world: World) -> None:
        top = node_at(world, self.caller.tenant, self._top)
        line = tuple(place for place in top.waiting_at(world.now) if place.ticket != self.ticket)
        if len(line) != len(top.line):
            world.put(NODES, msgspec.structs.replace(top, line=line))
            wake_next(world, self.caller.tenant, self.resource)

    @property
    def _top(self) -> str:
        return top_of(path_of(self.resource)[0])
