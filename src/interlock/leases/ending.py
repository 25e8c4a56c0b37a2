"""How a lease ends: its node forgets the holder, and whoever is next in line is woken. Nothing else is erased."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.identity.model import Caller
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.leases.lines import next_in_line, ticket_topic
from interlock.leases.model import LEASES, NODES, TRANSITIONS, Lease, Node, Place, path_of, top_of
from interlock.leases.recording import record
from interlock.leases.refusals import LeaseNotActionable
from interlock.outbox.rules import announce


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
    """Tell those who may try now, and nobody else: the others would only find that it is not their turn."""
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
