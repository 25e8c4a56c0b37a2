"""Acquiring a lease: take a free resource, or join the queue.

The decision owns every record that could show a conflict: the node of the path and of each path above it. A request
for everything under a path also looks at the leases under it; acquiring one of those owns the nodes above, so none
can appear meanwhile. Expired leases are ended in the same decision, and the new holder gets their last checkpoint.

Locks are taken in one order, nodes before leases. Renewing locks only the lease, so renewing and waiting do not block
each other.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Key, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.store_state import clock_fence
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.lines import (
    Claim,
    LeasesUnder,
    end_lease,
    node_at,
    stand_in_line,
    who_goes_before,
)
from interlock.rooms.leases.model import (
    LEASES,
    NODES,
    TERMS,
    TERMS_ID,
    TREE,
    Holder,
    HolderSeen,
    Lease,
    LeaseHeld,
    LeaseState,
    LeaseTerms,
    Mode,
    Node,
    Place,
    ResourceTooDeep,
    ResourceUnclear,
    ancestors_of,
    conflicts,
    path_of,
)
from interlock.rooms.leases.rules import record

HOLDERS_MAX = 256
DEPTH_MAX = 16
_PURPOSE_SHOWN_MAX = 100
_UNDER_MAX = 50
_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX = 0.1, 60.0
OWNERS = (Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.ADMIN)


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """A lease just acquired, and the one before it on this resource, if there was one."""

    lease: Lease
    predecessor: Lease | None


class AcquireLease(Command[Acquired], frozen=True, kw_only=True):
    """Take a resource if it is free. `ticket` keeps the caller's place in line when it is not.

    Without a `lease_id` the lease gets a fresh one, in the order of decisions.
    """

    caller: Caller
    lease_id: str | None = None
    resource: str
    mode: Mode = Mode.EXCLUSIVE
    purpose: str = ""
    session: str = ""
    ttl_seconds: int | float = 60
    ticket: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        nodes = tuple(NODES.key(tenant, each) for each in self._paths)
        picks = (self._under,) if self._is_tree else ()
        return caller_reads(self.caller) | Reads(own=nodes, see=(TERMS.key(tenant, TERMS_ID),), picks=picks)

    def more(self, world: World) -> Reads:
        """The leases that stand in the way, and the last one on this resource."""
        tenant = self.caller.tenant
        own: dict[Key, None] = {}
        for path in self._paths:
            for holder in self._holders(world, path):
                own[LEASES.key(tenant, holder.lease_id)] = None
        for lease in self._overdue_under(world):
            own[LEASES.key(tenant, lease.id)] = None
            own[NODES.key(tenant, path_of(lease.resource)[0])] = None
        last = node_at(world, tenant, self._path).last_lease
        see = (LEASES.key(tenant, last),) if last else ()
        return Reads(own=tuple(own), see=see)

    def decide(self, world: World) -> Acquired:
        require(world, self.caller, *OWNERS)
        _check_resource(self.resource)
        is_crowded = self._is_tree and len(world.pick(self._under)) >= _UNDER_MAX
        self._end_overdue(world)
        self._check_free(world)
        if is_crowded:
            why = "covers a large number of expired leases, which are ended first"
            raise LeaseHeld(self.resource, None, _RETRY_SECONDS_MIN, why)
        return self._acquire(world)

    def refused(self, world: World, refusal: Refusal) -> None:
        """Keep, or take, the caller's place in the queue; expired leases are ended either way."""
        if not isinstance(refusal, LeaseHeld):
            return
        self._end_overdue(world)
        if self.ticket is not None:
            stand_in_line(world, self.caller.tenant, self._claim)

    # Finding it free.

    def _check_free(self, world: World) -> None:
        for path in self._paths:
            for holder in self._holders(world, path):
                if conflicts(holder, self.mode):
                    self._check_over(world, world.get(LEASES, self.caller.tenant, holder.lease_id))
        if self._is_tree:
            for lease in world.pick(self._under):
                self._check_over(world, lease)
        self._check_line(world)
        shared_by = len(node_at(world, self.caller.tenant, self._path).holders)
        if shared_by >= HOLDERS_MAX:
            raise LeaseHeld(self.resource, None, 1.0, f"is shared by {shared_by} already")

    def _check_over(self, world: World, lease: Lease | None) -> None:
        if lease is None or not lease.is_live_at(world.now):
            return
        holder = HolderSeen(
            principal=lease.owner,
            purpose=lease.purpose,
            since=lease.since,
            expires_at=lease.expires_at,
            lease_id=lease.id,
            resource=lease.resource,
            session=lease.session,
        )
        purpose = f" ({lease.purpose[:_PURPOSE_SHOWN_MAX]})" if lease.purpose else ""
        why = f"is held by {lease.holder}{purpose} until {lease.expires_at:%Y-%m-%dT%H:%M:%SZ} unless renewed"
        raise LeaseHeld(self.resource, holder, _until(lease.expires_at, world.now), why)

    def _check_line(self, world: World) -> None:
        """Callers do not overtake: those before in line that this lease would exclude go first."""
        line = node_at(world, self.caller.tenant, self._paths[0]).waiting_at(world.now)
        first = who_goes_before(line, self._claim)
        if first is None:
            return
        if first.kept:
            left = _until(first.expires_at, world.now)
            raise LeaseHeld(self.resource, _seen(first), left, f"is kept for {first.principal}")
        raise LeaseHeld(
            self.resource, _seen(first), 1.0, f"goes to {first.principal} first, who waits longer"
        )

    # Taking it.

    def _acquire(self, world: World) -> Acquired:
        tenant, now = self.caller.tenant, world.now
        # Nodes above are made on first use, so that a lease on the whole subtree has something to lock.
        for path in self._paths[:-1]:
            if world.get(NODES, tenant, path) is None:
                world.put(NODES, Node(tenant=tenant, id=path))
        node, top = node_at(world, tenant, self._path), node_at(world, tenant, self._paths[0])
        predecessor = world.get(LEASES, tenant, node.last_lease) if node.last_lease else None
        fence = world.next_fence(node.fence, top.fence, clock_fence(micros(now)) - 1)
        lease = world.add(LEASES, self._lease(world, fence, predecessor))
        holder = Holder(lease_id=lease.id, mode=self.mode, tree=self._is_tree)
        held = msgspec.structs.replace(node, fence=lease.fence, holders=(*node.holders, holder))
        world.put(NODES, held)
        top = node_at(world, tenant, self._paths[0])
        line = tuple(place for place in top.waiting_at(now) if not self._claim.is_at(place))
        world.put(NODES, msgspec.structs.replace(top, fence=lease.fence, line=line))
        self._tell(world, lease)
        return Acquired(lease=lease, predecessor=predecessor)

    def _lease(self, world: World, fence: int, predecessor: Lease | None) -> Lease:
        tenant = self.caller.tenant
        terms = world.get(TERMS, tenant, TERMS_ID) or LeaseTerms(tenant=tenant, id=TERMS_ID)
        ttl = min(self.ttl_seconds, terms.ttl_seconds_max)
        return Lease(
            tenant=tenant,
            id=self.lease_id or world.new_id("lse"),
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
            # So that a successor who dies before its own first checkpoint does not lose this one.
            checkpoint=predecessor.checkpoint if predecessor else None,
        )

    def _tell(self, world: World, lease: Lease) -> None:
        record(world, self.caller, "acquire", lease, mode=lease.mode.value)
        facts = {"resource": lease.resource, "owner": lease.owner, "fence": lease.fence}
        announce(world, lease.tenant, "lease.acquired", lease.id, facts)

    # Others.

    def _end_overdue(self, world: World) -> None:
        """End the leases in the way whose time is up."""
        overdue = {lease.id: lease for lease in self._overdue_under(world)}
        for path in self._paths:
            for holder in self._holders(world, path):
                lease = world.get(LEASES, self.caller.tenant, holder.lease_id)
                if lease is not None and lease.is_held and not lease.is_live_at(world.now):
                    overdue[lease.id] = lease
        for lease in overdue.values():
            end_lease(world, lease, "expire")

    def _overdue_under(self, world: World) -> list[Lease]:
        found = world.pick(self._under) if self._is_tree else ()
        return [lease for lease in found if not lease.is_live_at(world.now)]

    def _holders(self, world: World, path: str) -> list[Holder]:
        """Who holds this resource itself, or everything that it lies under."""
        node = node_at(world, self.caller.tenant, path)
        return [holder for holder in node.holders if holder.tree or path == self._path]

    @property
    def _path(self) -> str:
        return path_of(self.resource)[0]

    @property
    def _is_tree(self) -> bool:
        return path_of(self.resource)[1]

    @property
    def _paths(self) -> tuple[str, ...]:
        """From the top of the tree down to the resource's own path."""
        return (*ancestors_of(self._path), self._path)

    @property
    def _under(self) -> LeasesUnder:
        return LeasesUnder(tenant=self.caller.tenant, path=self._path, wanted=self.mode, limit=_UNDER_MAX)

    @property
    def _claim(self) -> Claim:
        return Claim(
            principal=self.caller.principal,
            resource=self.resource,
            mode=self.mode,
            ticket=self.ticket,
            purpose=self.purpose,
        )


def _check_resource(resource: str) -> None:
    path, _ = path_of(resource)
    if len(ancestors_of(path)) >= DEPTH_MAX:
        raise ResourceTooDeep(DEPTH_MAX)
    if any(part.endswith(TREE.strip("/")) for part in path.split("/")):
        raise ResourceUnclear(resource)


def _seen(place: Place) -> HolderSeen:
    """The caller that goes first, as shown to those after it; it has yet to take the lease."""
    return HolderSeen(
        principal=place.principal,
        purpose=place.purpose,
        since=place.since,
        expires_at=place.expires_at,
        lease_id=None,
        resource=place.resource,
    )


def _until(moment: datetime, now: datetime) -> float:
    left = (moment - now).total_seconds()
    return min(max(left, _RETRY_SECONDS_MIN), _RETRY_SECONDS_MAX)
