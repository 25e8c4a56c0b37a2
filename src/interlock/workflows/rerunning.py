"""Running a finished run again from one of its steps: earlier results are kept, later ones forgotten."""

from __future__ import annotations

from interlock.admission.model import RUNS, Run
from interlock.admission.rules import StartRun
from interlock.identity.refusals import NotFound
from interlock.jobs.model import ADVANCE_TOPIC
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.workflows.model import PROGRESS, Progress, StepRun, StepState
from interlock.workflows.ordering import after
from interlock.workflows.refusals import StepNotRerunnable


class RerunFrom(Command[Run], frozen=True, kw_only=True):
    """A new run, admitted like any other, that takes over what the old one had done before this step."""

    start: StartRun
    old_run_id: str
    step: str

    def reads(self) -> Reads:
        tenant = self.start.caller.tenant
        return self.start.reads() | Reads(
            see=(PROGRESS.key(tenant, self.old_run_id), RUNS.key(tenant, self.old_run_id))
        )

    def more(self, world: World) -> Reads:
        return self.start.more(world)

    def decide(self, world: World) -> Run:
        old = world.get(PROGRESS, self.start.caller.tenant, self.old_run_id)
        ran = world.get(RUNS, self.start.caller.tenant, self.old_run_id)
        if old is None or ran is None or old.workflow != self.start.workflow:
            raise NotFound("run with steps", self.old_run_id)
        again = self._again(old, ran.state_at(world.now).value)
        run = self.start.decide(world)
        steps = tuple(StepRun(id=step.id) if step.id in again else step for step in old.steps)
        world.add(
            PROGRESS,
            Progress(
                tenant=run.tenant, id=run.id, workflow=run.workflow, definition=old.definition, steps=steps
            ),
        )
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
