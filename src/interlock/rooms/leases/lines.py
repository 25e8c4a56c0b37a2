"""The queue of callers that wait for a resource, how leases end, and which waiting callers are woken then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import EventType, announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.model import (
    LEASES,
    NODES,
    TRANSITIONS,
    Lease,
    LeaseMode,
    LeaseNotActionable,
    LeaseState,
    Node,
    Place,
    path_of,
    top_of,
)
from interlock.rooms.leases.rules import find_lease, record

# Wake-ups are hints: those further back look again by themselves.
_LOOKED_AT = 128


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants, and its place in line if it has one."""

    principal: str
    resource: str
    mode: LeaseMode
    ticket: str | None = None
    purpose: str = ""

    def is_at(self, place: Place) -> bool:
        """Whether this is the claim's own place: its ticket's, or the one kept for it by a hand-off."""
        if place.kept:
            return place.principal == self.principal and place.resource == self.resource
        return place.ticket == self.ticket

    def excludes(self, place: Place) -> bool:
        return LeaseMode.EXCLUSIVE in (self.mode, place.mode) and overlaps(self.resource, place.resource)


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
    wanted: LeaseMode
    own: bool = False

    @property
    def query(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - two queries, by the mode
        if self.wanted is LeaseMode.EXCLUSIVE:
            return "leases.leases_under"
        return "leases.exclusive_leases_under"

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "low": f"{self.path}/", "high": f"{self.path}{_AFTER_SLASH}"}

    def matches(self, record: Lease, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.is_held
            and record.resource.startswith(f"{self.path}/")
            and LeaseMode.EXCLUSIVE in (record.mode, self.wanted)
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


def ending_reads(tenant: str, resource: str) -> Reads:
    """What `end_lease` changes besides the lease, which is owned after these: in `more`."""
    path, _ = path_of(resource)
    return Reads(own=tuple(NODES.key(tenant, each) for each in dict.fromkeys((top_of(path), path))))


_ENDED: Mapping[LeaseState, EventType] = {
    LeaseState.HANDED_OFF: "lease.handed_off",
    LeaseState.RELEASED: "lease.released",
    LeaseState.STALE: "lease.stale",
}


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
    announce(world, lease.tenant, _ENDED[state], lease.id, facts)
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
