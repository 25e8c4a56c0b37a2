"""How leases end, and what then happens to the callers that wait for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.fences import find_lease, record
from interlock.rooms.leases.lines import Claim, next_in_line, ticket_topic
from interlock.rooms.leases.model import (
    LEASES,
    NODES,
    TRANSITIONS,
    Lease,
    LeaseNotActionable,
    Node,
    Place,
    path_of,
    top_of,
)


def ending_reads(tenant: str, resource: str) -> Reads:
    """What `end_lease` changes besides the lease, which is owned after these: in `more`."""
    path, _ = path_of(resource)
    return Reads(own=tuple(NODES.key(tenant, each) for each in dict.fromkeys((top_of(path), path))))


def end_lease(
    world: World,
    lease: Lease,
    verb: str,
    *,
    by: Caller | None = None,
    kept: Place | None = None,
    **changes: Any,
) -> Lease:
    """End a lease by `release`, `hand_off` or `expire`; `kept` is a place at the front of the line."""
    state = TRANSITIONS.get((lease.state, verb))
    if state is None:
        raise LeaseNotActionable(lease.id, lease.state.value, verb)
    ended = world.put(LEASES, msgspec.structs.replace(lease, state=state, ended_at=world.now, **changes))
    _forget(world, lease, kept)
    record(world, by, verb, ended)
    facts = {"resource": lease.resource, "owner": lease.owner, "fence": lease.fence}
    announce(world, lease.tenant, f"lease.{state.value}", lease.id, facts)
    wake_next(world, lease.tenant, lease.resource)
    return ended


def wake_next(world: World, tenant: str, resource: str) -> None:
    """Wake only the callers that may try now; the others would find that it is not their turn."""
    top = node_at(world, tenant, top_of(path_of(resource)[0]))
    for ticket in next_in_line(top.waiting_at(world.now), resource):
        world.wake(ticket_topic(ticket))


def node_at(world: World, tenant: str, path: str) -> Node:
    return world.get(NODES, tenant, path) or Node(tenant=tenant, id=path)


def _forget(world: World, lease: Lease, kept: Place | None) -> None:
    path, _ = path_of(lease.resource)
    node = node_at(world, lease.tenant, path)
    holders = tuple(holder for holder in node.holders if holder.lease_id != lease.id)
    world.put(NODES, msgspec.structs.replace(node, holders=holders, last_lease=lease.id))
    if kept is not None:
        top = node_at(world, lease.tenant, top_of(path))
        world.put(NODES, msgspec.structs.replace(top, line=(kept, *top.waiting_at(world.now))))


SETTLERS = (Role.REVIEW, Role.OPERATE, Role.ADMIN)


class _LeaseInConflict(Command[Lease], frozen=True, kw_only=True):
    """Changes the lease in the conflict that a person resolves; other conflicts that name it do not count."""

    caller: Caller
    lease_id: str
    resource: str
    conflict_id: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | ending_reads(self.caller.tenant, self.resource)

    def more(self, world: World) -> Reads:
        return Reads(own=(LEASES.key(self.caller.tenant, self.lease_id),))

    def _found(self, world: World, verb: str) -> Lease:
        require(world, self.caller, *SETTLERS)
        lease = find_lease(world, self.caller.tenant, self.lease_id, self.resource)
        if not lease.is_in_conflict_at(world.now, self.conflict_id):
            raise LeaseNotActionable(lease.id, lease.state_at(world.now).value, verb)
        return lease


class SettleLease(_LeaseInConflict, frozen=True, kw_only=True):
    """The conflict is settled; the owner goes on, or still waits if it was told to."""

    def decide(self, world: World) -> Lease:
        lease = self._found(world, "be settled")
        state = TRANSITIONS[lease.state, "settle" if lease.suspended_at is None else "settle_suspended"]
        stored = world.put(LEASES, msgspec.structs.replace(lease, state=state, conflict_id=None))
        record(world, self.caller, "settle", stored)
        facts = {
            "resource": lease.resource,
            "lease_id": lease.id,
            "fence": lease.fence,
            "owner": lease.owner,
        }
        announce(world, lease.tenant, "lease.settled", lease.id, facts)
        return stored


class EndLeaseInConflict(_LeaseInConflict, frozen=True, kw_only=True):
    """The owner's work is discarded: the lease ends, and whatever they still write is refused as stale."""

    def decide(self, world: World) -> Lease:
        return end_lease(world, self._found(world, "be ended"), "release", by=self.caller)


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
    """Give up the caller's place in the queue; the next waiting caller may go first."""

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
