"""The next step of a problem as the SDK words it: a call that does what the operation does."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import msgspec
import pytest

from interlock import Interlock
from interlock.api.problem import routed
from interlock.sdk.next_steps import METHODS, NEEDING, in_python
from interlock.sdk.outcomes import Conflict, InterlockError, outcome_of, read_problem
from interlock.wire.problem import NextStep, Problem
from tests.harness.next_steps import named_steps
from tests.sdk.scripted_server import in_turn, serving
from tests.sdk.virtual_time import problem

REFRESH = NextStep(
    operation="refresh_approval",
    method="POST",
    path="/api/v1/approvals/job_1/refresh",
    arguments={"job_id": "job_1"},
)
# What only the caller knows stands in the call as its name.
GIVEN: dict[str, Any] = {
    "evidence": "seen",
    "outcome": "committed",
    "payload": {"n": 1},
    "policy": {"version": "v1"},
    "public_key": "ssh-ed25519 AAAA",
    "reason": "no",
    "signature": {"fingerprint": "f", "signature": "s"},
    "topic": "pay",
}


@pytest.mark.parametrize("place", named_steps())
def test_the_call_that_is_worded_asks_for_the_route_of_the_operation(place: str) -> None:
    step = routed(named_steps()[place])
    call = in_python("", step).removeprefix("; next: ")
    assert call.startswith("il.")
    with (
        serving(in_turn(problem(404, "not_found"))) as server,
        Interlock(server.url, "il_secret") as il,
        contextlib.suppress(InterlockError),
    ):
        eval(call, {"il": il, **GIVEN})
    asked = server.received[0]
    assert (asked.method, asked.path) == (step.method, step.path.partition("?")[0])


def test_no_call_is_kept_for_an_operation_that_nobody_names() -> None:
    steps = named_steps().values()
    assert set(METHODS) == {step.operation for step in steps}
    assert set(NEEDING) <= {(step.operation, step.needs) for step in steps}


def test_an_exception_has_the_next_step_and_words_it_as_a_call() -> None:
    detail = "the policy changed"
    answer = problem(409, "snapshot_changed", detail=detail, next=msgspec.to_builtins(REFRESH))
    raised = outcome_of(read_problem(answer))
    assert isinstance(raised, Conflict)
    assert (raised.sentence, raised.next) == (detail, REFRESH)
    assert str(raised) == "the policy changed; next: il.refresh('job_1')"
    again = pickle.loads(pickle.dumps(raised))
    assert (str(again), again.next) == (str(raised), REFRESH)


def test_an_agent_is_not_told_calls() -> None:
    raised = Conflict(Problem(status=409, code="snapshot_changed", detail="the policy changed", next=REFRESH))
    assert "il." not in raised.for_agent()


def test_a_step_of_a_newer_service_is_worded_as_its_route() -> None:
    newer = NextStep(operation="dance", method="POST", path="/api/v1/dances", arguments={})
    assert in_python("no", newer) == "no; next: POST /api/v1/dances"


@pytest.mark.parametrize("odd", [None, 1, "x", {}, {"operation": 1}, {"operation": "get_job"}])
def test_a_step_that_cannot_be_read_is_left_out(odd: object) -> None:
    read = read_problem(problem(409, "conflict", detail="no", next=odd))
    assert (read.detail, read.next) == ("no", None)
