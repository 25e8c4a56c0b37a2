"""Admission's commands: set limits, and start, renew, end and expire runs.

Every start owns the gate of its tenant and the gate of its workflow, so counting and deciding are one step. Slots
whose lease has expired are taken back in the same decision. A freed slot goes to the first caller in the queue that
still waits and whose workflow has a free slot; nobody overtakes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import (
    GATES,
    LIMITS,
    RUNS,
    TALLIES,
    TENANT_SCOPE,
    TRANSITIONS,
    Gate,
    GateFull,
    Limit,
    Run,
    RunState,
    Tally,
    gate_id,
    workflow_scope,
)
from interlock.rooms.admission.slots import (
    LINE_MAX,
    ahead_of,
    audit,
    check_holds,
    check_may_end,
    end_run,
    expired,
    find_run,
    gate_of,
    gates_of_expired,
    has_room,
    leave_line,
    operated,
    reclaim,
    retry_after,
    stand_in_line,
    take_slot,
    wake_next,
)
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, require


class SetLimit(Command[tuple[Limit, Gate]], frozen=True, kw_only=True):
    """Change how many runs a scope may have. Lowering ends no run; it only stops new ones.

    The result is the limit and the gate that keeps it, which counts the runs it has now.
    """

    caller: Caller
    scope: str
    max_concurrent_runs: int

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        gates = (GATES.key(tenant, TENANT_SCOPE), GATES.key(tenant, gate_id(self.scope)))
        return caller_reads(self.caller) | Reads(own=(*gates, LIMITS.key(tenant, self.scope)))

    def decide(self, world: World) -> tuple[Limit, Gate]:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        tenant, most = self.caller.tenant, self.max_concurrent_runs
        gate = gate_of(world, tenant, gate_id(self.scope))
        gate = world.put(GATES, msgspec.structs.replace(gate, limit=most))
        wake_next(world, tenant)
        audit(world, self.caller, "limit_set", self.scope, max_concurrent_runs=most)
        limit = world.put(
            LIMITS,
            Limit(tenant=tenant, id=self.scope, max_concurrent_runs=most, set_by=by.id, set_at=world.now),
        )
        return limit, gate


class ClearLimit(Command[bool], frozen=True, kw_only=True):
    """Take a scope's own limit away: a workflow is then limited by its tenant, a tenant by the default."""

    caller: Caller
    scope: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        gates = (GATES.key(tenant, TENANT_SCOPE), GATES.key(tenant, gate_id(self.scope)))
        return caller_reads(self.caller) | Reads(own=(*gates, LIMITS.key(tenant, self.scope)))

    def decide(self, world: World) -> bool:
        require(world, self.caller, Role.OPERATE, Role.ADMIN)
        tenant = self.caller.tenant
        limit = world.get(LIMITS, tenant, self.scope)
        if limit is None:
            return False
        world.delete(LIMITS, limit)
        gate = gate_of(world, tenant, gate_id(self.scope))
        world.put(GATES, msgspec.structs.replace(gate, limit=None))
        wake_next(world, tenant)
        audit(world, self.caller, "limit_clear", self.scope)
        return True


class StartRun(Command[Run], frozen=True, kw_only=True):
    """Start a run if there is room. With a `ticket` the caller stands in line when there is none.

    The call itself is known in the line by its `call_id`, so that repeats under one ticket leave one by one. Without
    a `run_id` the run gets a fresh one, in the order of decisions.
    """

    caller: Caller
    workflow: str
    call_id: str = ""
    run_id: str | None = None
    ttl_seconds: int | float
    input: msgspec.Raw = msgspec.Raw(b"null")
    ticket: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        gates = (GATES.key(tenant, TENANT_SCOPE), GATES.key(tenant, workflow_scope(self.workflow)))
        return caller_reads(self.caller) | Reads(own=gates, picks=(expired(tenant),))

    def more(self, world: World) -> Reads:
        """The gates of workflows whose slots might be taken back, and of the waiting callers."""
        tenant = self.caller.tenant
        line = {ticket.workflow for ticket in gate_of(world, tenant, TENANT_SCOPE).line}
        see = tuple(GATES.key(tenant, workflow_scope(workflow)) for workflow in sorted(line))
        return Reads(own=gates_of_expired(world, tenant), see=see)

    def decide(self, world: World) -> Run:
        require(world, self.caller, Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN)
        tenant = self.caller.tenant
        reclaim(world, tenant)
        self._check_room(world)
        run = world.add(RUNS, self._run(world, take_slot(world, tenant, self.workflow, self.ticket)))
        # Without the fence: many can read the audit and the events, and could end the run with it.
        details = {"workflow": run.workflow}
        audit(world, self.caller, "run_start", run.id, **details)
        announce(world, tenant, "run.started", run.id, details)
        return run

    def refused(self, world: World, refusal: Refusal) -> None:
        """Keep the slots that were taken back, and keep or take the caller's place in line."""
        if isinstance(refusal, GateFull):
            reclaim(world, self.caller.tenant)
            if self.ticket is not None:
                stand_in_line(world, self.caller.tenant, self.workflow, self.ticket, self._name)

    @property
    def _name(self) -> str:
        return self.call_id or self.run_id or ""

    def _check_room(self, world: World) -> None:
        tenant = self.caller.tenant
        line = gate_of(world, tenant, TENANT_SCOPE).waiting_at(world.now)
        ahead = ahead_of(line, self.ticket)
        for scope in (TENANT_SCOPE, self.workflow):
            gate = gate_of(world, tenant, TENANT_SCOPE if scope == TENANT_SCOPE else workflow_scope(scope))
            if not has_room(world, tenant, gate, ahead):
                raise GateFull(
                    scope=scope,
                    workflow=self.workflow,
                    active=gate.active,
                    limit=gate.most or 0,
                    waiting=len(ahead),
                    is_line_full=len(ahead) >= LINE_MAX,
                    retry_after_seconds=retry_after(gate, len(ahead), self.ticket or self._name),
                )

    def _run(self, world: World, fence: int) -> Run:
        return Run(
            tenant=self.caller.tenant,
            id=self.run_id or world.new_id("run"),
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
    """Stop waiting with this call; a repeat that waits at the same ticket keeps the place."""

    caller: Caller
    ticket: str
    call_id: str

    def reads(self) -> Reads:
        return Reads(own=(GATES.key(self.caller.tenant, TENANT_SCOPE),))

    def decide(self, world: World) -> None:
        leave_line(world, self.caller.tenant, self.ticket, self.call_id)


class RenewRun(Command[Run], frozen=True, kw_only=True):
    """Keep the slot for another period, as its starter under its fence or as an operator, which is audited."""

    caller: Caller
    run_id: str
    fence: int | None = None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(RUNS.key(self.caller.tenant, self.run_id),))

    def decide(self, world: World) -> Run:
        by = require(world, self.caller)
        run = find_run(world, self.caller.tenant, self.run_id)
        is_operator = check_may_end(by, run, self.fence)
        check_holds(world, run, self.fence, "renew")
        if is_operator:
            audit(world, self.caller, "run_renew", run.id, **operated(run))
        expires = world.now + timedelta(seconds=run.ttl_seconds)
        return world.put(RUNS, msgspec.structs.replace(run, slot_expires_at=expires))


class EndRun(Command[Run], frozen=True, kw_only=True):
    """End a run (`complete`, `fail` or `cancel`) and free its slot. Repeating it changes nothing.

    Its starter ends it with its fence, an operator with or without: others cannot. What an operator ended is audited as
    such. A run that was lost has no slot to free.
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
        run, is_operator = self._authorised(world)
        target = TRANSITIONS[RunState.RUNNING, self.verb]
        if run.state is target and (self.fence is None or self.fence == run.fence):
            return run
        check_holds(world, run, self.fence, self.verb)
        ended = end_run(world, run, target, result=self.result, error=self.error)
        details = {"workflow": run.workflow, "error": self.error, **(operated(run) if is_operator else {})}
        audit(world, self.caller, f"run_{self.verb}", run.id, **details)
        return ended

    def _authorised(self, world: World) -> tuple[Run, bool]:
        """The run, and whether the caller acts as an operator."""
        by = require(world, self.caller)
        run = find_run(world, self.caller.tenant, self.run_id)
        if run.workflow != self.workflow:
            raise NotFound("run", self.run_id)
        return run, check_may_end(by, run, self.fence)


class ReclaimSlots(Command[int], frozen=True, kw_only=True):
    """Take back slots of one tenant whose lease has run out, at most `RECLAIM_MAX`; returns how many."""

    tenant: str

    def reads(self) -> Reads:
        return Reads(own=(GATES.key(self.tenant, TENANT_SCOPE),), picks=(expired(self.tenant),))

    def more(self, world: World) -> Reads:
        return Reads(own=gates_of_expired(world, self.tenant))

    def decide(self, world: World) -> int:
        return reclaim(world, self.tenant)


# How long a tally that was rolled up is kept: a server that was not told of its COMMIT may store it again.
KEPT = timedelta(hours=1)


class KeepTally(Command[Tally], frozen=True, kw_only=True):
    """Store what one server counted within a few seconds, instead of what it stored for them before.

    Every server stores its counts of how starts ended, so that each can report what all of them saw. A 503 means that
    the store could not be asked, so each server counts in memory and stores its counts later, in tallies of a few
    seconds each. After a minute they are rolled up into sheets (traffic.py), which are kept for a month.
    """

    tally: Tally

    def reads(self) -> Reads:
        return Reads(own=(TALLIES.key(self.tally.tenant, self.tally.id),))

    def decide(self, world: World) -> Tally:
        before = world.get(TALLIES, self.tally.tenant, self.tally.id)
        if before is None:
            return world.add(TALLIES, self.tally)
        if before.rows == self.tally.rows:
            return before
        return world.put(TALLIES, msgspec.structs.replace(before, rows=self.tally.rows, rolled_at=None))


class OldTallies(Pick[Tally], frozen=True, kw_only=True):
    """Tallies that were rolled up long ago, in every tenant, the oldest first."""

    kind = TALLIES
    query = "admission.old_tallies"

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - KEPT)}

    def matches(self, record: Tally, now: datetime) -> bool:
        return record.rolled_at is not None and record.rolled_at < now - KEPT

    def sort_key(self, record: Tally) -> Any:
        return (record.rolled_at, record.tenant, record.id)


class ForgetTallies(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` tallies that were rolled up long ago; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OldTallies(limit=self.most),))

    def decide(self, world: World) -> int:
        found = world.pick(OldTallies(limit=self.most))
        for tally in found:
            world.delete(TALLIES, tally)
        return len(found)
