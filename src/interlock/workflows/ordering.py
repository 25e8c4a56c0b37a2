"""The order of steps: checked when a workflow is defined, asked while a run advances. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.workflows.model import STEPS_MAX, Step, StepKind, StepRun, StepState
from interlock.workflows.refusals import BadSteps


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
