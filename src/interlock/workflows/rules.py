"""Define workflows, start runs of them, and take them back."""

from __future__ import annotations

import msgspec

from interlock.admission.model import RUNS, Run, RunState
from interlock.admission.rules import EndRun, StartRun
from interlock.audit.rules import Note, note
from interlock.identity.model import Caller, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import caller_reads, require
from interlock.jobs.model import ADVANCE_TOPIC
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.workflows.ending import as_left, job_reads, stopped
from interlock.workflows.model import PROGRESS, SLOT, WORKFLOWS, Progress, Step, StepRun, Workflow
from interlock.workflows.ordering import check_steps
from interlock.workflows.refusals import RunUnderWay, StepsNotDone

SLOT_SECONDS = int(SLOT.total_seconds())


class DefineWorkflow(Command[Workflow], frozen=True, kw_only=True):
    """Say which steps runs of a workflow take from now on."""

    caller: Caller
    workflow: str
    steps: tuple[Step, ...]

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(WORKFLOWS.key(self.caller.tenant, self.workflow),))

    def decide(self, world: World) -> Workflow:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        check_steps(self.steps)
        _audit(world, self.caller, "workflow_define", self.workflow)
        definition = Workflow(
            tenant=self.caller.tenant,
            id=self.workflow,
            steps=self.steps,
            defined_by=by.id,
            defined_at=world.now,
        )
        return world.put(WORKFLOWS, definition)


class DeleteWorkflow(Command[Workflow], frozen=True, kw_only=True):
    """Forget a definition. Runs under way go on with the one they started with."""

    caller: Caller
    workflow: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(WORKFLOWS.key(self.caller.tenant, self.workflow),))

    def decide(self, world: World) -> Workflow:
        require(world, self.caller, Role.OPERATE, Role.ADMIN)
        known = world.get(WORKFLOWS, self.caller.tenant, self.workflow)
        if known is None:
            raise NotFound("workflow", self.workflow)
        _audit(world, self.caller, "workflow_delete", self.workflow)
        world.delete(WORKFLOWS, known)
        return known


class DeleteRun(Command[Run], frozen=True, kw_only=True):
    """Forget a run that is over, and how its steps went. Its jobs and what the audit says of it stay."""

    caller: Caller
    run_id: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        own = (RUNS.key(tenant, self.run_id), PROGRESS.key(tenant, self.run_id))
        return caller_reads(self.caller) | Reads(own=own)

    def decide(self, world: World) -> Run:
        require(world, self.caller, Role.OPERATE, Role.ADMIN)
        run = world.get(RUNS, self.caller.tenant, self.run_id)
        if run is None:
            raise NotFound("run", self.run_id)
        progress = world.get(PROGRESS, self.caller.tenant, self.run_id)
        # A run that is only past its time still counts at the gate: a sweep settles it first.
        if run.state is RunState.RUNNING or (progress and not progress.is_over):
            raise RunUnderWay(run.id, run.state_at(world.now).value)
        _audit(world, self.caller, "run_delete", run.id)
        world.delete(RUNS, run)
        if progress:
            world.delete(PROGRESS, progress)
        return run


class StartWorkflowRun(Command[Run], frozen=True, kw_only=True):
    """Start a run if there is room, with the steps of its workflow, if it has any."""

    start: StartRun

    def reads(self) -> Reads:
        tenant = self.start.caller.tenant
        return self.start.reads() | Reads(see=(WORKFLOWS.key(tenant, self.start.workflow),))

    def more(self, world: World) -> Reads:
        return self.start.more(world)

    def decide(self, world: World) -> Run:
        known = world.get(WORKFLOWS, self.start.caller.tenant, self.start.workflow)
        if known is None or not known.steps:
            return self.start.decide(world)
        # Its caller does not renew it, so it is not the caller's time that its slot lasts.
        run = msgspec.structs.replace(self.start, ttl_seconds=SLOT_SECONDS).decide(world)
        steps = tuple(StepRun(id=step.id) for step in known.steps)
        progress = Progress(
            tenant=run.tenant, id=run.id, workflow=run.workflow, definition=known.steps, steps=steps
        )
        world.add(PROGRESS, progress)
        world.wake(ADVANCE_TOPIC)
        return run

    def refused(self, world: World, refusal: Refusal) -> None:
        self.start.refused(world, refusal)


class EndWorkflowRun(Command[Run], frozen=True, kw_only=True):
    """End a run, and in the same decision what is left of its steps. One with steps is completed by them alone.

    Its jobs are its starter's, and so is the run: `EndRun` refuses everybody but the starter and an operator.
    """

    end: EndRun

    def reads(self) -> Reads:
        return self.end.reads() | Reads(own=(PROGRESS.key(self.end.caller.tenant, self.end.run_id),))

    def more(self, world: World) -> Reads:
        progress = self._under_way(world)
        return job_reads(progress) if progress else NOTHING

    def decide(self, world: World) -> Run:
        run = self.end.decide(world)
        progress = self._under_way(world)
        if progress is None:
            return run
        if run.state is RunState.SUCCEEDED:
            raise StepsNotDone(run.id)
        world.put(PROGRESS, stopped(world, as_left(world, progress)))
        return run

    def _under_way(self, world: World) -> Progress | None:
        progress = world.get(PROGRESS, self.end.caller.tenant, self.end.run_id)
        return None if progress is None or progress.is_over else progress


def _audit(world: World, caller: Caller, action: str, subject: str) -> None:
    note(
        world,
        Note(
            tenant=caller.tenant,
            actor=caller.principal,
            action=action,
            subject=subject,
            request_id=caller.request_id,
        ),
    )
