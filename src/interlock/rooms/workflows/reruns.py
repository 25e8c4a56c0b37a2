"""Runs a finished run again from one of its steps: earlier results are kept, later ones are dropped.

An approval is kept like any result, within its old limits: for the caller who asked then, for work that is not done
yet, and for one run.
"""

from __future__ import annotations

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import RUNS, Run
from interlock.rooms.admission.rules import StartRun
from interlock.rooms.identity.model import all_folded
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import identify
from interlock.rooms.jobs.completion import cancel
from interlock.rooms.jobs.model import ADVANCE_TOPIC, JOBS, JobState
from interlock.rooms.workflows.model import PROGRESS, Progress, StepKind, StepRun, StepState
from interlock.rooms.workflows.refusals import StepNotRerunnable
from interlock.rooms.workflows.rules import after, job_reads, may_take_back

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
        """Whether the yes of every question that is not asked again holds for this run too."""
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
        """What was done on this yes, or is being done as a dead letter that came back, and would be done again."""
        hinges = after(old.definition, question.id) & after(old.definition, self.step)
        return [step.id for step in old.steps if step.id in hinges and _is_done(world, old.tenant, step)]

    def _move_on(self, world: World, old: Progress, again: set[str], run_id: str) -> None:
        """Leave the yes to the new run alone: the dead letters of the old one do not come back beside it."""
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
