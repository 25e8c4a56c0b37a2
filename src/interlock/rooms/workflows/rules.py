"""Define and delete workflows; start, end, rerun and delete their runs.

A rerun starts a finished run again from one of its steps: earlier results are kept, later ones are dropped. An
approval is kept like any result, within its old limits: for the caller who asked then, for work that is not done yet,
and for one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import RUNS, Run, RunState
from interlock.rooms.admission.rules import EndRun, StartRun
from interlock.rooms.admission.slots import audit
from interlock.rooms.identity.model import Caller, Principal, Role, all_folded
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import caller_reads, identify, require
from interlock.rooms.jobs.model import ADVANCE_TOPIC, JOBS, ApprovalState, Job, JobState
from interlock.rooms.jobs.model import TRANSITIONS as JOB_TRANSITIONS
from interlock.rooms.jobs.records import announce_job, record_change
from interlock.rooms.jobs.rules import cancel
from interlock.rooms.workflows.model import (
    PROGRESS,
    SLOT,
    STEPS_MAX,
    TRANSITIONS,
    WORKFLOWS,
    BadSteps,
    Progress,
    RunUnderWay,
    Step,
    StepKind,
    StepNotRerunnable,
    StepRun,
    StepsNotDone,
    StepState,
    Workflow,
)


def check_steps(steps: Sequence[Step]) -> None:
    """Refuse steps that could never all run: unknown or circular dependencies, missing topics, doubles."""
    names = [step.id for step in steps]
    if len(steps) > STEPS_MAX:
        raise BadSteps(f"there are {len(steps)}, and {STEPS_MAX} is the most")
    if len(set(names)) != len(names):
        raise BadSteps("two steps have the same id")
    for step in steps:
        unknown = sorted(set(step.depends_on) - set(names))
        if unknown:
            raise BadSteps(f"{step.id} depends on {', '.join(unknown)}, which is no step")
        if step.kind is StepKind.WORKER and not step.topic:
            raise BadSteps(f"{step.id} is for a worker and needs a topic")
    _check_no_circle(steps)


def ready_steps(definition: Sequence[Step], runs: Sequence[StepRun]) -> list[Step]:
    """Steps that wait for nothing any more."""
    states = {run.id: run.state for run in runs}
    return [
        step
        for step in definition
        if states[step.id] is StepState.WAITING
        and all(states[before] is StepState.SUCCEEDED for before in step.depends_on)
    ]


def after(definition: Sequence[Step], step_id: str) -> set[str]:
    """A step and everything that depends on it, however far away."""
    found = {step_id}
    grown = True
    while grown:
        more = {step.id for step in definition if found & set(step.depends_on)}
        grown = not more <= found
        found |= more
    return found


def _check_no_circle(steps: Sequence[Step]) -> None:
    left = {step.id: set(step.depends_on) for step in steps}
    while left:
        free = {name for name, before in left.items() if not before & set(left)}
        if not free:
            raise BadSteps(f"{', '.join(sorted(left))} depend on each other in a circle")
        left = {name: before for name, before in left.items() if name not in free}


_ENDED = "its workflow step ended"
_OVER = {JobState.FAILED, JobState.DENIED, JobState.CANCELLED, JobState.EXPIRED}


def job_reads(progress: Progress) -> Reads:
    """The jobs of a run's steps, to be changed with them."""
    return Reads(own=tuple(JOBS.key(progress.tenant, step.job_id) for step in progress.steps if step.job_id))


def may_take_back(by: Principal, run: Run) -> bool:
    """Whether this principal may act for a run's jobs: its starter and operators may."""
    return by.id == run.started_by or bool({Role.OPERATE, Role.ADMIN} & set(by.roles))


def as_left(world: World, progress: Progress) -> Progress:
    """A run's steps as their jobs have left them. Needs `job_reads`."""
    definitions = {step.id: step for step in progress.definition}
    steps = tuple(_seen(world, progress.tenant, step, definitions[step.id]) for step in progress.steps)
    return msgspec.structs.replace(progress, steps=steps)


def stopped(world: World, progress: Progress) -> Progress:
    """A run's steps when the run ends: running steps are withdrawn, waiting ones are skipped."""
    steps = tuple(_stopped(world, progress.tenant, step) for step in progress.steps)
    return msgspec.structs.replace(progress, steps=steps, is_over=True)


def ended(world: World, step: StepRun, verb: str, why: str = "") -> StepRun:
    """A step that is over by this verb."""
    return msgspec.structs.replace(
        step, state=TRANSITIONS[step.state, verb], ended_at=world.now, why=why or step.why
    )


def _seen(world: World, tenant: str, step: StepRun, definition: Step) -> StepRun:
    job = world.get(JOBS, tenant, step.job_id) if step.job_id else None
    if step.state is not StepState.RUNNING or job is None:
        return step
    if definition.kind is StepKind.APPROVAL and _is_agreed(job):
        _close_question(world, job)
        return ended(world, step, "succeed")
    if job.state is JobState.SUCCEEDED:
        return ended(world, step, "succeed")
    if job.state in _OVER:
        return ended(world, step, "fail", f"the job is {job.state.value}")
    if step.started_at and world.now >= step.started_at + timedelta(seconds=definition.timeout_seconds):
        cancel(world, job, None, _ENDED)
        return ended(world, step, "fail", "it took too long")
    return step


def _stopped(world: World, tenant: str, step: StepRun) -> StepRun:
    if step.state is StepState.WAITING:
        return ended(world, step, "skip")
    if step.state is not StepState.RUNNING:
        return step
    job = world.get(JOBS, tenant, step.job_id) if step.job_id else None
    if job is not None:
        cancel(world, job, None, _ENDED)
    return ended(world, step, "cancel")


def _is_agreed(job: Job) -> bool:
    """Whether people approved: that there is no open request is not enough."""
    approval = job.approval
    return job.state is JobState.PENDING and approval is not None and approval.state is ApprovalState.APPROVED


def _close_question(world: World, job: Job) -> None:
    state = JOB_TRANSITIONS[job.state, "answer"]
    done = msgspec.structs.replace(job, state=state, updated_at=world.now, finished_at=world.now)
    stored = world.put(JOBS, done)
    record_change(world, stored, None, "answer")
    announce_job(world, stored, "job.succeeded")


SLOT_SECONDS = int(SLOT.total_seconds())


class DefineWorkflow(Command[Workflow], frozen=True, kw_only=True):
    """Set the steps of a workflow's runs from now on."""

    caller: Caller
    workflow: str
    steps: tuple[Step, ...]

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(WORKFLOWS.key(self.caller.tenant, self.workflow),))

    def decide(self, world: World) -> Workflow:
        by = require(world, self.caller, Role.OPERATE, Role.ADMIN)
        check_steps(self.steps)
        audit(world, self.caller, "workflow_define", self.workflow)
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
        audit(world, self.caller, "workflow_delete", self.workflow)
        world.delete(WORKFLOWS, known)
        return known


class DeleteRun(Command[Run], frozen=True, kw_only=True):
    """Delete a run that is over, with its steps. Its jobs and its audit entries stay."""

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
        audit(world, self.caller, "run_delete", run.id)
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
        # Its caller does not renew it, so the slot lasts longer than the caller's TTL.
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
    """End a run and, in the same decision, its open steps. A run with steps is completed by its steps only.

    Its jobs and the run belong to its starter: `EndRun` refuses all but the starter and operators.
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


_DONE_OR_BACK = {JobState.SUCCEEDED, JobState.APPROVAL, JobState.PENDING, JobState.RUNNING}


class RerunFrom(Command[Run], frozen=True, kw_only=True):
    """A new run, admitted like any other, that takes over what the old one had done before this step."""

    start: StartRun
    old_run_id: str
    step: str

    def reads(self) -> Reads:
        tenant = self.start.caller.tenant
        return self.start.reads() | Reads(
            own=(PROGRESS.key(tenant, self.old_run_id),), see=(RUNS.key(tenant, self.old_run_id),)
        )

    def more(self, world: World) -> Reads:
        old = world.get(PROGRESS, self.start.caller.tenant, self.old_run_id)
        return self.start.more(world) | (job_reads(old) if old else NOTHING)

    def decide(self, world: World) -> Run:
        old = world.get(PROGRESS, self.start.caller.tenant, self.old_run_id)
        ran = world.get(RUNS, self.start.caller.tenant, self.old_run_id)
        if old is None or ran is None or old.workflow != self.start.workflow:
            raise NotFound("run with steps", self.old_run_id)
        again = self._again(old, ran.state_at(world.now).value)
        kept = [step for step in _questions(old) if step.id not in again]
        self._check_may_keep(world, old, ran, kept)
        run = self.start.decide(world)
        steps = tuple(StepRun(id=step.id) if step.id in again else step for step in old.steps)
        progress = Progress(
            tenant=run.tenant, id=run.id, workflow=run.workflow, definition=old.definition, steps=steps
        )
        world.add(PROGRESS, progress)
        if kept:
            self._move_on(world, old, again, run.id)
        world.wake(ADVANCE_TOPIC)
        return run

    def refused(self, world: World, refusal: Refusal) -> None:
        self.start.refused(world, refusal)

    def _again(self, old: Progress, state: str) -> set[str]:
        if not old.is_over:
            raise StepNotRerunnable(self.old_run_id, state, "it is still under way; cancel it first")
        if old.step(self.step) is None:
            raise StepNotRerunnable(self.old_run_id, state, f"it has no step {self.step}")
        again = after(old.definition, self.step)
        undone = [
            step.id for step in old.steps if step.id not in again and step.state is not StepState.SUCCEEDED
        ]
        if undone:
            raise StepNotRerunnable(
                self.old_run_id, state, f"{', '.join(undone)} did not succeed; start there"
            )
        return again

    def _check_may_keep(self, world: World, old: Progress, ran: Run, kept: list[StepRun]) -> None:
        """Raise unless the approval of every question that is not asked again holds for this run too."""
        by = identify(world, self.start.caller)
        for question in kept:
            why = ""
            done = self._done_since(world, old, question)
            if not may_take_back(by, ran):
                why = f"people said yes at {question.id} to {ran.started_by}"
            elif all_folded(by.people) & _who_agreed(world, old.tenant, question):
                why = f"{by.id} cannot start what {by.person} said yes to at {question.id}"
            elif done:
                why = f"people said yes at {question.id} to doing {', '.join(done)} once"
            elif old.continued_as:
                why = f"the yes at {question.id} went on to run {old.continued_as}"
            if why:
                state = ran.state_at(world.now).value
                raise StepNotRerunnable(self.old_run_id, state, f"{why}; start at {question.id}")

    def _done_since(self, world: World, old: Progress, question: StepRun) -> list[str]:
        """The steps that this approval was already used for, also by a retried dead letter: they would run twice."""
        hinges = after(old.definition, question.id) & after(old.definition, self.step)
        return [step.id for step in old.steps if step.id in hinges and _is_done(world, old.tenant, step)]

    def _move_on(self, world: World, old: Progress, again: set[str], run_id: str) -> None:
        """Give the approval to the new run only: dead letters of the old run cannot be retried as well."""
        world.put(PROGRESS, msgspec.structs.replace(old, continued_as=run_id))
        for step in old.steps:
            job = world.get(JOBS, old.tenant, step.job_id) if step.id in again and step.job_id else None
            if job is not None and job.state is JobState.FAILED:
                cancel(world, job, None, f"its step goes on in run {run_id}")


def _questions(progress: Progress) -> list[StepRun]:
    kinds = {step.id: step.kind for step in progress.definition}
    return [step for step in progress.steps if kinds[step.id] is StepKind.APPROVAL]


def _is_done(world: World, tenant: str, step: StepRun) -> bool:
    job = world.get(JOBS, tenant, step.job_id) if step.job_id else None
    return step.state is StepState.SUCCEEDED or (job is not None and job.state in _DONE_OR_BACK)


def _who_agreed(world: World, tenant: str, question: StepRun) -> frozenset[str]:
    job = world.get(JOBS, tenant, question.job_id) if question.job_id else None
    votes = job.approval.votes if job and job.approval else ()
    return all_folded(name for vote in votes for name in (vote.principal, vote.person))
