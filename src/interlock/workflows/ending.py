"""How steps end: as their jobs have left them, or with their run."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from interlock.admission.model import Run
from interlock.approvals.model import ApprovalState
from interlock.approvals.recording import announce_job, record_change
from interlock.identity.model import Principal, Role
from interlock.jobs.finishing import cancel
from interlock.jobs.model import JOBS, Job, JobState
from interlock.jobs.model import TRANSITIONS as JOB_TRANSITIONS
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.workflows.model import TRANSITIONS, Progress, Step, StepKind, StepRun, StepState

_ENDED = "its workflow step ended"
_OVER = {JobState.FAILED, JobState.DENIED, JobState.CANCELLED, JobState.EXPIRED}


def job_reads(progress: Progress) -> Reads:
    """The jobs of a run's steps, to be changed with them."""
    return Reads(own=tuple(JOBS.key(progress.tenant, step.job_id) for step in progress.steps if step.job_id))


def may_take_back(by: Principal, run: Run) -> bool:
    """Whether somebody may speak for a run's jobs: they are its starter's, and an operator's."""
    return by.id == run.started_by or bool({Role.OPERATE, Role.ADMIN} & set(by.roles))


def as_left(world: World, progress: Progress) -> Progress:
    """A run's steps as their jobs have left them. Needs `job_reads`."""
    definitions = {step.id: step for step in progress.definition}
    steps = tuple(_seen(world, progress.tenant, step, definitions[step.id]) for step in progress.steps)
    return msgspec.structs.replace(progress, steps=steps)


def stopped(world: World, progress: Progress) -> Progress:
    """A run's steps when nothing more is to be done: what was under way is withdrawn, what waited is skipped."""
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
    """Whether people said yes to the question: that nobody is asked any more is not enough."""
    approval = job.approval
    return job.state is JobState.PENDING and approval is not None and approval.state is ApprovalState.APPROVED


def _close_question(world: World, job: Job) -> None:
    state = JOB_TRANSITIONS[job.state, "answer"]
    done = msgspec.structs.replace(job, state=state, updated_at=world.now, finished_at=world.now)
    stored = world.put(JOBS, done)
    record_change(world, stored, None, "answer")
    announce_job(world, stored, "job.succeeded")
