"""How runs end: with a word from their holder, or because the holder stopped coming back."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.admission.gates import free_slot
from interlock.admission.model import GATES, RUNS, Run, RunState, workflow_scope
from interlock.admission.picks import ExpiredRuns
from interlock.admission.refusals import RunFenceStale, RunOver
from interlock.audit.rules import Note, note
from interlock.identity.model import Caller
from interlock.identity.refusals import NotFound
from interlock.kernel.record import Key
from interlock.kernel.world import World
from interlock.outbox.rules import announce

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
    details = {"workflow": run.workflow, "fence": run.fence}
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
    announce(world, run.tenant, f"run.{state.value}", run.id, {"workflow": run.workflow, "fence": run.fence})
    return world.put(RUNS, ended)


def check_holds(world: World, run: Run, fence: int, verb: str) -> None:
    """A fence of another run is stale, and so is the run's own once the slot is lost."""
    if fence != run.fence:
        raise RunFenceStale(run.id, run.state.value, run.fence)
    if run.state is RunState.LOST or (run.state is RunState.RUNNING and not run.holds_at(world.now)):
        raise RunFenceStale(run.id, RunState.LOST.value, run.fence)
    if run.state is not RunState.RUNNING:
        raise RunOver(run.id, run.state.value, verb)


def expired(tenant: str) -> ExpiredRuns:
    return ExpiredRuns(tenant=tenant, limit=RECLAIM_MAX)


def gates_of_expired(world: World, tenant: str) -> tuple[Key, ...]:
    workflows = {run.workflow for run in world.pick(expired(tenant))}
    return tuple(GATES.key(tenant, workflow_scope(workflow)) for workflow in sorted(workflows))


def audit(world: World, caller: Caller, action: str, subject: str, details: dict[str, Any]) -> None:
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
