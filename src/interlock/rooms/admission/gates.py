"""Gates: count the runs that hold slots, and keep the queue of waiting callers.

Every start and every end of a run owns the tenant's gate, so counts and queue places are decided one after the other,
whichever server asks. The tenant's gate keeps the queue; the gates of workflows only count.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta

import msgspec

from interlock.kernel.world import World
from interlock.rooms.admission.model import (
    GATES,
    TENANT_SCOPE,
    Gate,
    Ticket,
    Waiter,
    place_topic,
    workflow_scope,
)

TICKET_SECONDS = 6
_FRESH_SECONDS = 2
LINE_MAX = 500
_WAITERS_MAX = 4
_WOKEN_MAX = 32
_SMOOTHING = 0.2
_HOLD_SECONDS_UNKNOWN = 1.0
_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX = 0.2, 60.0


def gate_of(world: World, tenant: str, gate_id: str) -> Gate:
    """The gate as it is; one that no run has passed yet is empty."""
    return world.get(GATES, tenant, gate_id) or Gate(tenant=tenant, id=gate_id)


def take_slot(world: World, tenant: str, workflow: str, ticket: str | None) -> int:
    """Count one more run at both gates, leave the line, and return the run's fence."""
    gate = gate_of(world, tenant, TENANT_SCOPE)
    line = tuple(each for each in gate.waiting_at(world.now) if each.id != ticket)
    taken = world.put(
        GATES,
        msgspec.structs.replace(gate, active=gate.active + 1, fence=world.next_fence(gate.fence), line=line),
    )
    own = gate_of(world, tenant, workflow_scope(workflow))
    world.put(GATES, msgspec.structs.replace(own, active=own.active + 1))
    wake_next(world, tenant)
    return taken.fence


def free_slot(world: World, tenant: str, workflow: str, held_seconds: float) -> None:
    """Count one run less at both gates, and wake the next caller."""
    for gate_id in (TENANT_SCOPE, workflow_scope(workflow)):
        gate = gate_of(world, tenant, gate_id)
        before = gate.hold_seconds
        hold = before + _SMOOTHING * (held_seconds - before) if before else held_seconds
        world.put(GATES, msgspec.structs.replace(gate, active=max(0, gate.active - 1), hold_seconds=hold))
    wake_next(world, tenant)


def wake_next(world: World, tenant: str) -> None:
    """Wake only the callers that may be next: of each waiting workflow, as many as it has free slots.

    A woken caller checks itself whether its workflow has room. A place whose caller is gone delays the callers behind
    it until it expires.
    """
    gate = gate_of(world, tenant, TENANT_SCOPE)
    room = (gate.most or 0) - gate.active
    woken: dict[str, int] = {}
    for ticket in gate.waiting_at(world.now) if room > 0 else ():
        if woken.get(ticket.workflow, 0) < room:
            woken[ticket.workflow] = woken.get(ticket.workflow, 0) + 1
            world.wake(place_topic(tenant, ticket.id))
        if sum(woken.values()) >= _WOKEN_MAX:
            return


def stand_in_line(world: World, tenant: str, workflow: str, ticket_id: str, waiter_id: str) -> None:
    """Keep a place, or take the last one. A place that was kept a moment ago is not written again."""
    gate = gate_of(world, tenant, TENANT_SCOPE)
    waiter = Waiter(waiter_id, world.now + timedelta(seconds=TICKET_SECONDS))
    line = gate.waiting_at(world.now)
    kept = next((each for each in line if each.id == ticket_id), None)
    if kept is None and len(line) < LINE_MAX:
        line = (*line, Ticket(ticket_id, workflow, (waiter,)))
    elif kept is not None and not _is_fresh(kept, waiter):
        others = tuple(each for each in kept.waiters if each.id != waiter_id and each.expires_at > world.now)
        renewed = Ticket(ticket_id, workflow, (*others[1 - _WAITERS_MAX :], waiter))
        line = tuple(renewed if each is kept else each for each in line)
    else:
        return
    world.put(GATES, msgspec.structs.replace(gate, line=line))


def leave_line(world: World, tenant: str, ticket_id: str, waiter_id: str) -> None:
    """Stop waiting. The place stays for another call that waits at it."""
    gate = gate_of(world, tenant, TENANT_SCOPE)
    kept = next((each for each in gate.line if each.id == ticket_id), None)
    if kept is None:
        return
    left = tuple(each for each in kept.waiters if each.id != waiter_id)
    stays = (Ticket(ticket_id, kept.workflow, left),) if left else ()
    line = tuple(each for old in gate.line for each in (stays if old is kept else (old,)))
    world.put(GATES, msgspec.structs.replace(gate, line=line))
    wake_next(world, tenant)


def ahead_of(line: tuple[Ticket, ...], ticket: str | None) -> tuple[Ticket, ...]:
    """The tickets in line before this one; all of them for a new ticket."""
    for place, each in enumerate(line):
        if each.id == ticket:
            return line[:place]
    return line


def has_room(world: World, tenant: str, gate: Gate, ahead: tuple[Ticket, ...]) -> bool:
    """Whether this gate has a slot that no caller ahead in line would take."""
    most = gate.most
    if most is None:
        return True
    if gate.active >= most:
        return False
    taken: dict[str, int] = {}
    free = most - gate.active
    for ticket in ahead if gate.id == TENANT_SCOPE else (each for each in ahead if _passes(each, gate)):
        own = gate_of(world, tenant, workflow_scope(ticket.workflow))
        count = taken.get(ticket.workflow, 0)
        if own.most is None or own.active + count < own.most:
            taken[ticket.workflow] = count + 1
            free -= 1
        if free <= 0:
            return False
    return True


def retry_after(gate: Gate, ahead: int, spread_by: str) -> float:
    """When a slot may be free, by observed hold times and the queue; spread, so that callers do not return together."""
    expected = (gate.hold_seconds or _HOLD_SECONDS_UNKNOWN) * (ahead + 1) / max(1, gate.most or 1)
    if gate.most == 0:
        # Nothing will come free; only an operator opens this gate again.
        expected = _RETRY_SECONDS_MAX
    bounded = min(max(expected, _RETRY_SECONDS_MIN), _RETRY_SECONDS_MAX)
    spread = int.from_bytes(hashlib.sha256(spread_by.encode()).digest()[:4]) / 2**32
    return bounded * (1 + spread / 2)


def _is_fresh(kept: Ticket, waiter: Waiter) -> bool:
    since = waiter.expires_at - timedelta(seconds=_FRESH_SECONDS)
    return any(each.id == waiter.id and each.expires_at > since for each in kept.waiters)


def _passes(ticket: Ticket, gate: Gate) -> bool:
    return workflow_scope(ticket.workflow) == gate.id
