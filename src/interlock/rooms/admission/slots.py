"""Slots: how they are counted, who waits for one, and how the runs that hold them end.

Every start and every end of a run owns the tenant's gate, so counts and places in the queue are decided one after the
other, whichever server is asked. The tenant's gate keeps the queue; the gates of workflows only count. A run ends when
its holder says so, or when its slot expires.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Key, Params, Pick, micros
from interlock.kernel.world import World
from interlock.rooms.admission.model import (
    GATES,
    RUNS,
    TENANT_SCOPE,
    Gate,
    Run,
    RunFenceStale,
    RunOver,
    RunState,
    Ticket,
    Waiter,
    place_topic,
    workflow_scope,
)
from interlock.rooms.audit.model import Author, note
from interlock.rooms.events.model import EventType, announce
from interlock.rooms.identity.model import Caller, Principal, Role
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import check_roles


class ExpiredRuns(Pick[Run], frozen=True, kw_only=True):
    """Runs of a tenant that stopped renewing, the longest gone first."""

    kind = RUNS
    query = "admission.expired_runs"

    tenant: str

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "now": micros(now)}

    def matches(self, record: Run, now: datetime) -> bool:
        return (
            record.tenant == self.tenant
            and record.state is RunState.RUNNING
            and now >= record.slot_expires_at
        )

    def sort_key(self, record: Run) -> Any:
        return (record.slot_expires_at, record.id)


RECLAIM_MAX = 100


def reclaim(world: World, tenant: str) -> int:
    """Mark every picked run whose slot has run out as lost, and free its slot."""
    gone = world.pick(expired(tenant))
    for run in gone:
        lose_run(world, run)
    return len(gone)


def lose_run(world: World, run: Run) -> Run:
    """Mark a run whose slot has run out as lost, and free its slot."""
    details = {"workflow": run.workflow}
    note(world, Author(tenant=run.tenant), "run_lose", run.id, details=details)
    return end_run(world, run, RunState.LOST)


def find_run(world: World, tenant: str, run_id: str) -> Run:
    run = world.get(RUNS, tenant, run_id)
    if run is None:
        raise NotFound("run", run_id)
    return run


_ENDED: Mapping[RunState, EventType] = {
    RunState.SUCCEEDED: "run.succeeded",
    RunState.FAILED: "run.failed",
    RunState.CANCELLED: "run.cancelled",
    RunState.LOST: "run.lost",
}


def end_run(world: World, run: Run, state: RunState, **outcome: Any) -> Run:
    held = (min(world.now, run.slot_expires_at) - run.started_at).total_seconds()
    free_slot(world, run.tenant, run.workflow, held)
    ended = msgspec.structs.replace(run, state=state, ended_at=world.now, **outcome)
    # Without the fence: it is shown to the run's starter alone.
    announce(world, run.tenant, _ENDED[state], run.id, {"workflow": run.workflow})
    return world.put(RUNS, ended)


def check_may_end(by: Principal, run: Run, fence: int | None) -> bool:
    """Whether this principal acts as an operator; False for the run's starter, under its fence.

    The starter proves with the fence that it knows of no later one. An operator needs none: fences are shown to their
    holders alone.
    """
    if by.id == run.started_by and fence is not None:
        return False
    check_roles(by, Role.OPERATE)
    return by.id != run.started_by


def operated(run: Run) -> dict[str, str]:
    """Extra audit details where an operator acted for another principal's run."""
    return {"started_by": run.started_by, "as": Role.OPERATE.value}


def check_holds(world: World, run: Run, fence: int | None, verb: str) -> None:
    """Raise if the fence is not the run's own, or the slot is lost. An operator has no fence."""
    state = run.state_at(world.now)
    if fence is not None and (fence != run.fence or state is RunState.LOST):
        raise RunFenceStale(run.id, state.value)
    if state is not RunState.RUNNING:
        raise RunOver(run.id, state.value, verb)


def expired(tenant: str) -> ExpiredRuns:
    return ExpiredRuns(tenant=tenant, limit=RECLAIM_MAX)


def gates_of_expired(world: World, tenant: str) -> tuple[Key, ...]:
    workflows = {run.workflow for run in world.pick(expired(tenant))}
    return tuple(GATES.key(tenant, workflow_scope(workflow)) for workflow in sorted(workflows))


def audit(world: World, caller: Caller, action: str, subject: str, **details: Any) -> None:
    """Audit what a caller did to a limit, a workflow or a run; details that are empty are left out."""
    note(
        world,
        caller,
        action,
        subject,
        details={name: value for name, value in details.items() if value != ""},
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
