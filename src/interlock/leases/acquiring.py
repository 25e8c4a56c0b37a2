"""Acquiring a lease: find it free, or stand in line.

Everything that could make it unfree is owned while deciding: the node of the path and of each path above it.
Leases that ran out by the clock are ended in the same decision, and the newcomer gets their last checkpoint.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.audit.rules import Note, note
from interlock.identity.model import Caller, Role
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Key, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.leases.ending import end_lease
from interlock.leases.model import (
    LEASES,
    NODES,
    TERMS,
    TERMS_ID,
    Holder,
    Lease,
    LeaseState,
    LeaseTerms,
    Mode,
    Node,
    Place,
    ancestors_of,
    conflicts,
    path_of,
)
from interlock.leases.picks import LeasesUnder
from interlock.leases.refusals import HolderSeen, LeaseHeld, ResourceTooDeep
from interlock.outbox.rules import announce

PLACE_SECONDS = 5
LINE_MAX = 1000
DEPTH_MAX = 16
_UNDER_MAX = 50
_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX = 0.1, 60.0


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """A lease just acquired, and the one before it on this resource, if there was one."""

    lease: Lease
    predecessor: Lease | None


class AcquireLease(Command[Acquired], frozen=True, kw_only=True):
    """Take a resource if it is free. `ticket` keeps the caller's place in line when it is not."""

    caller: Caller
    lease_id: str
    resource: str
    mode: Mode = Mode.EXCLUSIVE
    purpose: str = ""
    session: str = ""
    ttl_seconds: int = 60
    ticket: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        path, tree = path_of(self.resource)
        nodes = tuple(NODES.key(tenant, each) for each in (*ancestors_of(path), path))
        picks = (LeasesUnder(tenant=tenant, path=path, limit=_UNDER_MAX),) if tree else ()
        return caller_reads(self.caller) | Reads(own=nodes, see=(TERMS.key(tenant, TERMS_ID),), picks=picks)

    def more(self, world: World) -> Reads:
        """The leases that stand in the way, and the last one on this resource."""
        path, _ = path_of(self.resource)
        own: list[Key] = []
        for each in (*ancestors_of(path), path):
            node = _node(world, self.caller.tenant, each)
            held = [holder.lease_id for holder in node.holders if each == path or holder.tree]
            last = [node.last_lease] if node.last_lease and each == path else []
            own.extend(LEASES.key(self.caller.tenant, lease_id) for lease_id in dict.fromkeys([*held, *last]))
        return Reads(own=tuple(dict.fromkeys(own)))

    def decide(self, world: World) -> Acquired:
        require(world, self.caller, Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.ADMIN)
        path, _ = path_of(self.resource)
        if len(ancestors_of(path)) >= DEPTH_MAX:
            raise ResourceTooDeep(DEPTH_MAX)
        predecessor = self._last(world, path)
        self._end_overdue(world, path)
        self._check_free(world, path)
        return self._acquire(world, path, predecessor)

    def refused(self, world: World, refusal: Refusal) -> None:
        """Keep, or take, the caller's place in line; whoever ran out of time is ended either way."""
        if not isinstance(refusal, LeaseHeld):
            return
        path, _ = path_of(self.resource)
        self._end_overdue(world, path)
        if self.ticket is not None:
            self._stand_in_line(world, path)

    # Finding it free.

    def _check_free(self, world: World, path: str) -> None:
        tenant, (_, tree) = self.caller.tenant, path_of(self.resource)
        for each in (*ancestors_of(path), path):
            node = _node(world, tenant, each)
            for holder in node.holders:
                if (holder.tree or each == path) and conflicts(holder, self.mode):
                    self._held(world, holder.lease_id)
            self._check_line(world.now, node, at_path=each == path)
        if tree:
            for lease in world.pick(LeasesUnder(tenant=tenant, path=path, limit=_UNDER_MAX)):
                if lease.is_live_at(world.now) and Mode.EXCLUSIVE in (lease.mode, self.mode):
                    self._held(world, lease.id)

    def _check_line(self, now: datetime, node: Node, *, at_path: bool) -> None:
        """Nobody overtakes: those before in line whom this lease would shut out go first."""
        kept = node.reserved
        if at_path and kept and kept.expires_at > now and kept.principal != self.caller.principal:
            raise LeaseHeld(
                self.resource, None, _until(kept.expires_at, now), f"is kept for {kept.principal}"
            )
        for place in node.waiting_at(now):
            if place.ticket == self.ticket:
                return
            if (at_path or place.tree) and Mode.EXCLUSIVE in (place.mode, self.mode):
                raise LeaseHeld(
                    self.resource, None, 1.0, f"goes to {place.principal} first, who waits longer"
                )

    def _held(self, world: World, lease_id: str) -> None:
        lease = world.get(LEASES, self.caller.tenant, lease_id)
        if lease is None or not lease.is_live_at(world.now):
            return
        holder = HolderSeen(
            principal=lease.owner,
            purpose=lease.purpose,
            since=lease.since,
            expires_at=lease.expires_at,
            lease_id=lease.id,
            resource=lease.resource,
        )
        raise LeaseHeld(
            self.resource, holder, _until(lease.expires_at, world.now), f"is held by {lease.owner}"
        )

    # Taking it.

    def _acquire(self, world: World, path: str, predecessor: Lease | None) -> Acquired:
        tenant, (_, tree) = self.caller.tenant, path_of(self.resource)
        for each in ancestors_of(path):
            if world.get(NODES, tenant, each) is None:
                world.put(NODES, Node(tenant=tenant, id=each))
        node = _node(world, tenant, path)
        lease = world.add(LEASES, self._lease(world, node.next_fence(world.now), predecessor))
        holder = Holder(lease_id=lease.id, mode=self.mode, tree=tree)
        world.put(
            NODES,
            msgspec.structs.replace(
                node,
                fence=lease.fence,
                holders=(*node.holders, holder),
                line=tuple(place for place in node.waiting_at(world.now) if place.ticket != self.ticket),
                reserved=None,
                last_lease=lease.id,
            ),
        )
        self._tell(world, lease)
        return Acquired(lease=lease, predecessor=predecessor)

    def _lease(self, world: World, fence: int, predecessor: Lease | None) -> Lease:
        terms = world.get(TERMS, self.caller.tenant, TERMS_ID) or _default_terms(self.caller.tenant)
        ttl = min(self.ttl_seconds, terms.ttl_seconds_max)
        return Lease(
            tenant=self.caller.tenant,
            id=self.lease_id,
            resource=self.resource,
            mode=self.mode,
            state=LeaseState.CLAIMED,
            fence=fence,
            owner=self.caller.principal,
            session=self.session,
            purpose=self.purpose,
            ttl_seconds=ttl,
            since=world.now,
            expires_at=world.now + timedelta(seconds=ttl),
            predecessor=predecessor.id if predecessor else None,
        )

    def _tell(self, world: World, lease: Lease) -> None:
        note(
            world,
            Note(
                tenant=lease.tenant,
                actor=lease.owner,
                action="lease_acquire",
                subject=lease.resource,
                request_id=self.caller.request_id,
                details={"lease_id": lease.id, "fence": lease.fence, "mode": lease.mode.value},
            ),
        )
        facts = {"resource": lease.resource, "owner": lease.owner, "fence": lease.fence}
        announce(world, lease.tenant, "lease.acquired", lease.id, facts)

    # Others.

    def _last(self, world: World, path: str) -> Lease | None:
        node = _node(world, self.caller.tenant, path)
        return world.get(LEASES, self.caller.tenant, node.last_lease) if node.last_lease else None

    def _end_overdue(self, world: World, path: str) -> None:
        """End leases in the way whose time is up; nodes elsewhere in the tree are left to the sweep."""
        tenant = self.caller.tenant
        for each in (*ancestors_of(path), path):
            for holder in _node(world, tenant, each).holders:
                if each != path and not holder.tree:
                    continue
                lease = world.get(LEASES, tenant, holder.lease_id)
                if lease is not None and lease.is_held and not lease.is_live_at(world.now):
                    end_lease(world, lease, "expire")

    def _stand_in_line(self, world: World, path: str) -> None:
        node = _node(world, self.caller.tenant, path)
        line = node.waiting_at(world.now)
        known = next((place for place in line if place.ticket == self.ticket), None)
        place = Place(
            ticket=self.ticket or "",
            principal=self.caller.principal,
            mode=self.mode,
            tree=path_of(self.resource)[1],
            since=known.since if known else world.now,
            expires_at=world.now + timedelta(seconds=PLACE_SECONDS),
        )
        if known:
            line = tuple(place if each.ticket == self.ticket else each for each in line)
        elif len(line) < LINE_MAX:
            line = (*line, place)
        world.put(NODES, msgspec.structs.replace(node, line=line))


class LeaveLeaseLine(Command[None], frozen=True, kw_only=True):
    """Give up one's place in line."""

    caller: Caller
    resource: str
    ticket: str

    def reads(self) -> Reads:
        return Reads(own=(NODES.key(self.caller.tenant, path_of(self.resource)[0]),))

    def decide(self, world: World) -> None:
        node = _node(world, self.caller.tenant, path_of(self.resource)[0])
        line = tuple(place for place in node.waiting_at(world.now) if place.ticket != self.ticket)
        if len(line) != len(node.line):
            world.put(NODES, msgspec.structs.replace(node, line=line))


def _node(world: World, tenant: str, path: str) -> Node:
    return world.get(NODES, tenant, path) or Node(tenant=tenant, id=path)


def _default_terms(tenant: str) -> LeaseTerms:
    return LeaseTerms(tenant=tenant, id=TERMS_ID)


def _until(moment: datetime, now: datetime) -> float:
    left = (moment - now).total_seconds()
    return min(max(left, _RETRY_SECONDS_MIN), _RETRY_SECONDS_MAX)
