"""Admission's commands: set limits, start runs, keep, end and lose their slots.

Every start of a tenant passes through the tenant's gate and the workflow's gate, both owned, so the count and
the decision are one. When a gate is full, slots whose lease has run out are taken back in the same decision.
A freed slot belongs to the first in line who still waits and whose workflow has room; nobody overtakes.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import msgspec

from interlock.admission.model import (
    GATES,
    LIMITS,
    RUNS,
    RUNS_DEFAULT,
    TENANT_SCOPE,
    TRANSITIONS,
    Gate,
    Limit,
    Run,
    RunState,
    Ticket,
    admission_topic,
    workflow_scope,
)
from interlock.admission.picks import ExpiredRuns
from interlock.admission.refusals import GateFull, RunFenceStale, RunOver
from interlock.audit.rules import Note, note
from interlock.identity.model import Caller, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.outbox.rules import announce

TICKET_SECONDS = 5
LINE_MAX = 1000
_RECLAIM_MAX = 20
_SMOOTHING = 0.2
_WAIT_SECONDS_MIN, _WAIT_SECONDS_MAX = 0.2, 60.0


class SetLimit(Command[Limit], frozen=True, kw_only=True):
    """Change how many runs a scope may have. Lowering ends no run; it only stops new ones."""

    caller: Caller
    scope: str
    max_concurrent_runs: int

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(LIMITS.key(self.caller.tenant, self.scope),))

    def decide(self, world: World) -> Limit:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        tenant = self.caller.tenant
        limit = Limit(
            tenant=tenant,
            id=self.scope,
            max_concurrent_runs=self.max_concurrent_runs,
            set_by=by.id,
            set_at=world.now,
        )
        _audit(world, self.caller, "limit_set", self.scope, {"max_concurrent_runs": self.max_concurrent_runs})
        world.wake(admission_topic(tenant))
        return world.put(LIMITS, limit)


class StartRun(Command[Run], frozen=True, kw_only=True):
    """Start a run if there is room. `ticket` keeps the caller's place in line when there is none."""

    caller: Caller
    workflow: str
    run_id: str
    ttl_seconds: int
    input: msgspec.Raw = msgspec.Raw(b"null")
    ticket: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        gates = (GATES.key(tenant, TENANT_SCOPE), GATES.key(tenant, workflow_scope(self.workflow)))
        limits = (LIMITS.key(tenant, TENANT_SCOPE), LIMITS.key(tenant, self.workflow))
        return caller_reads(self.caller) | Reads(own=gates, see=limits, picks=(_expired(tenant),))

    def more(self, world: World) -> Reads:
        """The gates of workflows whose slots might be taken back, and of those who stand in line."""
        return Reads(
            own=_gates_of_others(world, self.caller.tenant), see=_limits_in_line(world, self.caller.tenant)
        )

    def decide(self, world: World) -> Run:
        require(world, self.caller, Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN)
        tenant = self.caller.tenant
        reclaim(world, tenant)
        self._check_room(world)
        gate = _put_gate(world, tenant, TENANT_SCOPE, active=1, leaving=self.ticket)
        _put_gate(world, tenant, workflow_scope(self.workflow), active=1)
        run = world.add(RUNS, self._run(world, gate.fence))
        _audit(world, self.caller, "run_start", run.id, {"workflow": run.workflow, "fence": run.fence})
        announce(world, tenant, "run.started", run.id, {"workflow": run.workflow, "fence": run.fence})
        return run

    def refused(self, world: World, refusal: Refusal) -> None:
        """Keep, or take, the caller's place in line."""
        if isinstance(refusal, GateFull) and self.ticket is not None:
            _stand_in_line(world, self.caller.tenant, self.ticket, self.workflow)

    def _check_room(self, world: World) -> None:
        tenant = self.caller.tenant
        line = _gate(world, tenant, TENANT_SCOPE).waiting_at(world.now)
        ahead = _ahead_of(line, self.ticket)
        for scope, limit in (
            (TENANT_SCOPE, self._tenant_limit(world)),
            (self.workflow, self._own_limit(world)),
        ):
            gate = _gate(world, tenant, scope if scope == TENANT_SCOPE else workflow_scope(scope))
            claims = _claims_ahead(world, tenant, ahead, scope)
            if limit is not None and gate.active + claims >= limit:
                raise _full(gate, scope, limit, len(ahead), self.ticket or self.run_id)

    def _tenant_limit(self, world: World) -> int:
        kept = world.get(LIMITS, self.caller.tenant, TENANT_SCOPE)
        return kept.max_concurrent_runs if kept else RUNS_DEFAULT

    def _own_limit(self, world: World) -> int | None:
        kept = world.get(LIMITS, self.caller.tenant, self.workflow)
        return kept.max_concurrent_runs if kept else None

    def _run(self, world: World, fence: int) -> Run:
        return Run(
            tenant=self.caller.tenant,
            id=self.run_id,
            workflow=self.workflow,
            state=RunState.RUNNING,
            fence=fence,
            ttl_seconds=self.ttl_seconds,
            slot_expires_at=world.now + timedelta(seconds=self.ttl_seconds),
            input=self.input,
            started_by=self.caller.principal,
            started_at=world.now,
        )


class LeaveLine(Command[None], frozen=True, kw_only=True):
    """Give up one's place in line."""

    caller: Caller
    ticket: str

    def reads(self) -> Reads:
        return Reads(own=(GATES.key(self.caller.tenant, TENANT_SCOPE),))

    def decide(self, world: World) -> None:
        gate = _gate(world, self.caller.tenant, TENANT_SCOPE)
        if any(ticket.id == self.ticket for ticket in gate.line):
            _put_gate(world, self.caller.tenant, TENANT_SCOPE, leaving=self.ticket)
            world.wake(admission_topic(self.caller.tenant))


class RenewRun(Command[Run], frozen=True, kw_only=True):
    """Keep the slot for another period."""

    caller: Caller
    run_id: str
    fence: int

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(RUNS.key(self.caller.tenant, self.run_id),))

    def decide(self, world: World) -> Run:
        require(world, self.caller)
        run = find_run(world, self.caller.tenant, self.run_id)
        _check_fence(world, run, self.fence)
        expires = world.now + timedelta(seconds=run.ttl_seconds)
        return world.put(RUNS, msgspec.structs.replace(run, slot_expires_at=expires))


class EndRun(Command[Run], frozen=True, kw_only=True):
    """End a run (`complete`, `fail` or `cancel`) and free its slot. Repeating it changes nothing.

    Its own fence ends it; an operator may cancel without one. A run that was lost has no slot to free.
    """

    caller: Caller
    run_id: str
    workflow: str
    verb: str
    fence: int | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        own = (
            RUNS.key(tenant, self.run_id),
            GATES.key(tenant, TENANT_SCOPE),
            GATES.key(tenant, workflow_scope(self.workflow)),
        )
        return caller_reads(self.caller) | Reads(own=own)

    def decide(self, world: World) -> Run:
        run = self._authorised(world)
        target = TRANSITIONS[RunState.RUNNING, self.verb]
        if run.state is target and (self.fence is None or self.fence == run.fence):
            return run
        if self.fence is not None:
            _check_fence(world, run, self.fence)
        if run.state is not RunState.RUNNING:
            raise RunOver(run.id, run.state.value, self.verb)
        ended = _end(world, run, target, result=self.result, error=self.error)
        _audit(
            world, self.caller, f"run_{self.verb}", run.id, {"workflow": run.workflow, "error": self.error}
        )
        return ended

    def _authorised(self, world: World) -> Run:
        if self.fence is None:
            require(world, self.caller, Role.OPERATE, Role.ADMIN)
        else:
            require(world, self.caller)
        run = find_run(world, self.caller.tenant, self.run_id)
        if run.workflow != self.workflow:
            raise NotFound("run", self.run_id)
        return run


class ReclaimSlots(Command[int], frozen=True, kw_only=True):
    """Take back slots of one tenant whose lease has run out; returns how many."""

    tenant: str

    def reads(self) -> Reads:
        return Reads(own=(GATES.key(self.tenant, TENANT_SCOPE),), picks=(_expired(self.tenant),))

    def more(self, world: World) -> Reads:
        return Reads(own=_gates_of_others(world, self.tenant))

    def decide(self, world: World) -> int:
        return reclaim(world, self.tenant)


def reclaim(world: World, tenant: str) -> int:
    """Mark every picked run whose slot has run out as lost, and free its slot."""
    gone = world.pick(_expired(tenant))
    for run in gone:
        _end(world, run, RunState.LOST)
    return len(gone)


def find_run(world: World, tenant: str, run_id: str) -> Run:
    run = world.get(RUNS, tenant, run_id)
    if run is None:
        raise NotFound("run", run_id)
    return run


def _end(world: World, run: Run, state: RunState, **outcome: Any) -> Run:
    held = (min(world.now, run.slot_expires_at) - run.started_at).total_seconds()
    for scope in (TENANT_SCOPE, workflow_scope(run.workflow)):
        _put_gate(world, run.tenant, scope, active=-1, held=held)
    ended = msgspec.structs.replace(run, state=state, ended_at=world.now, **outcome)
    announce(world, run.tenant, f"run.{state.value}", run.id, {"workflow": run.workflow, "fence": run.fence})
    world.wake(admission_topic(run.tenant))
    return world.put(RUNS, ended)


def _check_fence(world: World, run: Run, fence: int) -> None:
    if fence != run.fence or not run.holds_at(world.now):
        state = run.state.value if run.state is not RunState.RUNNING else "lost"
        raise RunFenceStale(run.id, state if fence == run.fence else run.state.value, run.fence)


def _gate(world: World, tenant: str, scope: str) -> Gate:
    return world.get(GATES, tenant, scope) or Gate(tenant=tenant, id=scope)


def _put_gate(
    world: World,
    tenant: str,
    scope: str,
    *,
    active: int = 0,
    held: float | None = None,
    leaving: str | None = None,
) -> Gate:
    gate = _gate(world, tenant, scope)
    hold = gate.hold_seconds
    if held is not None:
        hold = held if hold == 0 else hold + _SMOOTHING * (held - hold)
    line = tuple(ticket for ticket in gate.waiting_at(world.now) if ticket.id != leaving)
    changed = msgspec.structs.replace(
        gate,
        active=max(0, gate.active + active),
        fence=gate.fence + (1 if active > 0 else 0),
        hold_seconds=hold,
        line=line,
    )
    return world.put(GATES, changed)


def _stand_in_line(world: World, tenant: str, ticket_id: str, workflow: str) -> None:
    gate = _gate(world, tenant, TENANT_SCOPE)
    ticket = Ticket(id=ticket_id, workflow=workflow, expires_at=world.now + timedelta(seconds=TICKET_SECONDS))
    line = gate.waiting_at(world.now)
    if any(each.id == ticket_id for each in line):
        line = tuple(ticket if each.id == ticket_id else each for each in line)
    elif len(line) < LINE_MAX:
        line = (*line, ticket)
    world.put(GATES, msgspec.structs.replace(gate, line=line))


def _ahead_of(line: tuple[Ticket, ...], ticket: str | None) -> tuple[Ticket, ...]:
    """Everyone in line before this ticket; a newcomer has everyone before them."""
    for place, each in enumerate(line):
        if each.id == ticket:
            return line[:place]
    return line


def _claims_ahead(world: World, tenant: str, ahead: tuple[Ticket, ...], scope: str) -> int:
    """How many of those ahead would take a slot of this scope now, had they been asked first."""
    taken: dict[str, int] = {}
    for ticket in ahead:
        if scope not in (TENANT_SCOPE, ticket.workflow):
            continue
        limit = world.get(LIMITS, tenant, ticket.workflow)
        gate = _gate(world, tenant, workflow_scope(ticket.workflow))
        mine = taken.get(ticket.workflow, 0)
        if limit is None or gate.active + mine < limit.max_concurrent_runs:
            taken[ticket.workflow] = mine + 1
    return sum(taken.values())


def _full(gate: Gate, scope: str, limit: int, waiting: int, spread_by: str) -> GateFull:
    return GateFull(
        scope=scope,
        active=gate.active,
        limit=limit,
        waiting=waiting,
        retry_after_seconds=retry_after(gate.hold_seconds, limit, waiting, spread_by),
    )


def retry_after(hold_seconds: float, limit: int, waiting: int, spread_by: str) -> float:
    """When a slot may be free: observed hold time and those ahead, spread so that callers do not return in step."""
    expected = (hold_seconds or 1.0) * (waiting + 1) / max(1, limit)
    bounded = min(max(expected, _WAIT_SECONDS_MIN), _WAIT_SECONDS_MAX)
    spread = int.from_bytes(hashlib.sha256(spread_by.encode()).digest()[:4]) / 2**32
    return bounded * (1 + spread / 2)


def _expired(tenant: str) -> ExpiredRuns:
    return ExpiredRuns(tenant=tenant, limit=_RECLAIM_MAX)


def _gates_of_others(world: World, tenant: str) -> tuple[Any, ...]:
    expired = world.pick(_expired(tenant))
    line = _gate(world, tenant, TENANT_SCOPE).line
    workflows = {run.workflow for run in expired} | {ticket.workflow for ticket in line}
    return tuple(GATES.key(tenant, workflow_scope(workflow)) for workflow in sorted(workflows))


def _limits_in_line(world: World, tenant: str) -> tuple[Any, ...]:
    line = _gate(world, tenant, TENANT_SCOPE).line
    return tuple(LIMITS.key(tenant, name) for name in sorted({ticket.workflow for ticket in line}))


def _audit(world: World, caller: Caller, action: str, subject: str, details: dict[str, Any]) -> None:
    note(
        world,
        Note(
            tenant=caller.tenant,
            actor=caller.principal,
            action=action,
            subject=subject,
            request_id=caller.request_id,
            details={name: value for name, value in details.items() if value},
        ),
    )
