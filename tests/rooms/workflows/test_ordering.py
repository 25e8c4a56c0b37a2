"""The order of steps: what makes a workflow, what is ready, what comes after."""

from __future__ import annotations

import pytest

from interlock.rooms.workflows.model import BadSteps, Step, StepKind, StepRun, StepState
from interlock.rooms.workflows.rules import after, check_steps, ready_steps


def worker(name: str, *before: str) -> Step:
    return Step(id=name, topic=f"t.{name}", depends_on=before)


DIAMOND = (worker("a"), worker("b", "a"), worker("c", "a"), worker("d", "b", "c"))


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ((worker("a", "b"), worker("b", "a")), "circle"),
        ((worker("a", "a"),), "circle"),
        ((worker("a", "x"),), "which is no step"),
        ((worker("a"), worker("a")), "same id"),
        ((Step(id="a"),), "needs a topic"),
        (tuple(worker(f"s{n}") for n in range(51)), "most"),
    ],
)
def test_steps_that_could_never_all_run_are_refused(steps: tuple[Step, ...], why: str) -> None:
    with pytest.raises(BadSteps, match=why):
        check_steps(steps)


def test_an_approval_needs_no_topic() -> None:
    check_steps((Step(id="ask", kind=StepKind.APPROVAL),))


def test_a_step_is_ready_only_when_everything_before_it_succeeded() -> None:
    runs = [
        StepRun(id="a", state=StepState.SUCCEEDED),
        StepRun(id="b", state=StepState.SUCCEEDED),
        StepRun(id="c"),
        StepRun(id="d"),
    ]
    assert [step.id for step in ready_steps(DIAMOND, runs)] == ["c"]


def test_everything_that_depends_on_a_step_comes_after_it() -> None:
    assert after(DIAMOND, "b") == {"b", "d"}
    assert after(DIAMOND, "a") == {"a", "b", "c", "d"}
