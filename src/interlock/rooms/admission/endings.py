"""How runs end: their holder reports it, or the lease expires."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.record import Key, Params, Pick, micros
from interlock.kernel.world import World
from interlock.rooms.admission.gates import free_slot
from interlock.rooms.admission.model import GATES, RUNS, Run, RunFenceStale, RunOver, RunState, workflow_scope
from interlock.rooms.audit.model import Note, note
from interlock.rooms.events.model import announce
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
_SWEEP = "interlock"


def reclaim(world: World, tenant: str) -> int:
    """Mark every picked run whose slot has run out as lost, and free its slot."""
    gone = world.pick(expired(tenant))
    for run in gone:
        lose_run(world, run)
    return len(gone)


def lose_run(world: World, run: Run) -> Run:
    """Mark a run whose slot has run out as lost, and free its slot."""
    details = {"workflow": run.workflow}
    note(world, Note(tenant=run.tenant, actor=_SWEEP, action="run_lose", subject=run.id, details=details))
    return end_run(world, run, RunState.LOST)


def find_run(world: World, tenant: str, run_id: str) -> Run:
    run = world.get(RUNS, tenant, run_id)
    if run is None:
        raise NotFound("run", run_id)
    return run


def end_run(world: World, run: Run, state: RunState, **outcome: Any) -> Run:
    held = (min(world.now, run.slot_expires_at) - run.started_at).total_seconds()
    free_slot(world, run.tenant, run.workflow, held)
    ended = msgspec.structs.replace(run, state=state, ended_at=world.now, **outcome)
    # Without the fence: it is shown to the run's starter alone.
    announce(world, run.tenant, f"run.{state.value}", run.id, {"workflow": run.workflow})
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
        Note(
            tenant=caller.tenant,
            actor=caller.principal,
            action=action,
            subject=subject,
            request_id=caller.request_id,
            details={name: value for name, value in details.items() if value != ""},
        ),
    )
