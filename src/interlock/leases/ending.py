"""How a lease ends: its node forgets the holder, and those who wait are woken. Nothing else is erased."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.audit.rules import Note, note
from interlock.kernel.world import World
from interlock.leases.model import LEASES, NODES, TRANSITIONS, Lease, Reservation, lease_topic, path_of
from interlock.leases.refusals import LeaseNotActionable
from interlock.outbox.rules import announce


def end_lease(
    world: World,
    lease: Lease,
    verb: str,
    *,
    by: str | None = None,
    reserved: Reservation | None = None,
    **changes: Any,
) -> Lease:
    """End a lease by `release`, `hand_off` or `expire`; the node must be owned."""
    state = TRANSITIONS.get((lease.state, verb))
    if state is None:
        raise LeaseNotActionable(lease.id, lease.state.value, verb)
    ended = world.put(LEASES, msgspec.structs.replace(lease, state=state, ended_at=world.now, **changes))
    path, _ = path_of(lease.resource)
    node = world.get(NODES, lease.tenant, path)
    if node is not None:
        holders = tuple(holder for holder in node.holders if holder.lease_id != lease.id)
        world.put(NODES, msgspec.structs.replace(node, holders=holders, reserved=reserved or node.reserved))
    note(
        world,
        Note(
            tenant=lease.tenant,
            actor=by or "interlock",
            action=f"lease_{verb}",
            subject=lease.resource,
            details={"lease_id": lease.id, "fence": lease.fence, "owner": lease.owner},
        ),
    )
    facts = {"resource": lease.resource, "owner": lease.owner, "fence": lease.fence}
    announce(world, lease.tenant, f"lease.{state.value}", lease.id, facts)
    world.wake(lease_topic(lease.tenant, path))
    return ended
