"""Checks whether a fence is current, and records what a stale one tried."""

from __future__ import annotations

from typing import Any

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.rooms.audit.model import Note, note
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import record_repeat, repeat_reads
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.leases.model import LEASES, NODES, Lease, LeaseFenceStale, path_of

_SWEEP = "interlock"


def record(
    world: World, by: Caller | None, action: str, lease: Lease, *, outcome: str = "done", **details: Any
) -> None:
    """Audit a change of a lease by a caller or by time (`by` is None), or a refusal."""
    note(
        world,
        Note(
            tenant=lease.tenant,
            actor=by.principal if by else _SWEEP,
            action=f"lease_{action}",
            subject=lease.resource,
            outcome=outcome,
            subject_version=lease.version,
            request_id=by.request_id if by else None,
            details={"lease_id": lease.id, "fence": lease.fence, "owner": lease.owner, **details},
        ),
    )


def find_lease(world: World, tenant: str, lease_id: str, resource: str) -> Lease:
    lease = world.get(LEASES, tenant, lease_id)
    if lease is None or lease.resource != resource:
        raise NotFound("lease", lease_id)
    return lease


def current_lease(
    world: World, caller: Caller, lease_id: str, resource: str, fence: int, *, session: str | None = None
) -> Lease:
    """The caller's lease, if it is live by the clock and this is its fence. `session` None: any of the owner's."""
    lease = find_lease(world, caller.tenant, lease_id, resource)
    if not _holds(world, caller, lease, fence, session):
        holder = _newest_holder(world, lease)
        raise LeaseFenceStale(
            lease.id,
            state=lease.state_at(world.now).value,
            holder=holder.owner if holder else None,
        )
    return lease


def stale_lease_reads(
    world: World, caller: Caller, lease_id: str, resource: str, fence: int, *, session: str | None = None
) -> Reads:
    """What a stale fence is recorded in, if this one looks stale; an owner in good standing pays nothing."""
    lease = world.get(LEASES, caller.tenant, lease_id)
    if lease is None or lease.resource != resource or _holds(world, caller, lease, fence, session):
        return NOTHING
    return stale_reads(world, caller, lease_id, resource)


def stale_reads(world: World, caller: Caller, lease_id: str, resource: str) -> Reads:
    """The group in which `record_stale_lease` counts, and the current holder of the resource."""
    newest = _newest_id(world, caller.tenant, resource)
    see = (LEASES.key(caller.tenant, newest),) if newest not in (None, lease_id) else ()
    return repeat_reads(_stale(caller, resource)) | Reads(see=see)


def _holds(world: World, caller: Caller, lease: Lease, fence: int, session: str | None) -> bool:
    is_owner = lease.owner == caller.principal and session in (None, lease.session)
    return is_owner and lease.fence == fence and lease.is_live_at(world.now)


def fence_at(world: World, lease: Lease) -> int:
    """The newest fence of the lease's resource that is known here; the lease's own is never ahead of it."""
    node = world.get(NODES, lease.tenant, path_of(lease.resource)[0])
    return max(node.fence, lease.fence) if node else lease.fence


def _newest_id(world: World, tenant: str, resource: str) -> str | None:
    node = world.get(NODES, tenant, path_of(resource)[0])
    return node.holders[-1].lease_id if node and node.holders else None


def _newest_holder(world: World, lease: Lease) -> Lease | None:
    """The live lease that took this lease's resource last; the lease itself while it is live.

    A lease that was taken after the first load is not known here, and not named.
    """
    newest = _newest_id(world, lease.tenant, lease.resource)
    if newest is None or not world.knows(LEASES.key(lease.tenant, newest)):
        return None
    found = world.get(LEASES, lease.tenant, newest)
    return found if found and found.is_live_at(world.now) else None


def record_stale_lease(
    world: World, caller: Caller, lease_id: str, resource: str, stale: LeaseFenceStale
) -> None:
    """Audit the use of a fence that is no longer current, and keep the collision for review."""
    lease = find_lease(world, caller.tenant, lease_id, resource)
    record(world, caller, "refused", lease, outcome=type(stale).__name__)
    late = Competing(actor=caller.principal, at=world.now, what="came with a fence that does not hold it")
    stands = _as_it_stands(world, lease)
    affected = Affected(lease=lease.id)
    stale.conflict_id = record_repeat(world, _stale(caller, resource), (stands, late), affected)


def _as_it_stands(world: World, lease: Lease) -> Competing:
    """Who holds the resource and since when; without a holder, how and when the lease ended."""
    holder = _newest_holder(world, lease)
    if holder is not None:
        return Competing(actor=holder.owner, at=holder.since, what=holder.state.value)
    what = lease.state_at(world.now).value
    return Competing(actor=lease.owner, at=lease.ended_at or lease.expires_at, what=what)


def _stale(caller: Caller, resource: str) -> Repeat:
    return Repeat(
        tenant=caller.tenant, kind=ConflictKind.STALE_FENCE, target=resource, actor=caller.principal
    )
