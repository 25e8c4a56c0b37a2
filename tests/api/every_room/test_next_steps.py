"""What a problem says to do next: an operation that there is, with arguments that it takes, and its route."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.api.assembly import OPERATIONS
from interlock.api.operations import Operation
from interlock.api.problem import routed
from interlock.kernel.refusal import Next
from tests.harness.in_process_api import ASK, InProcessApi
from tests.harness.next_steps import named_steps

BY_ID = {operation.id: operation for operation in OPERATIONS}


def fields_of(operation: Operation[Any, Any, Any, Any]) -> dict[str, bool]:
    """What an operation takes, and whether it must be there."""
    shapes = [shape for shape in (operation.query, operation.body) if isinstance(shape, type)]
    fields = [field for shape in shapes for field in msgspec.structs.fields(shape)]
    return dict.fromkeys(operation.path_parameters, True) | {
        field.encode_name: field.required for field in fields
    }


def test_refusals_name_next_steps() -> None:
    rooms = {place.split("/")[3] for place in named_steps() if "/rooms/" in place}
    assert {"admission", "effects", "grants", "jobs", "leases", "policy", "workflows"} <= rooms


@pytest.mark.parametrize("place", named_steps())
def test_a_next_step_is_an_operation_with_all_that_it_takes(place: str) -> None:
    step = named_steps()[place]
    taken = fields_of(BY_ID[step.operation])
    given = {*step.arguments, *step.needs}
    assert given <= taken.keys()
    assert {name for name, is_required in taken.items() if is_required} <= given


@pytest.mark.parametrize("place", named_steps())
def test_a_next_step_has_a_route_without_gaps(place: str) -> None:
    step = routed(named_steps()[place])
    assert (step.method, step.path[:8]) == (BY_ID[step.operation].method, "/api/v1/")
    assert "{" not in step.path


def test_a_route_quotes_what_it_is_filled_with() -> None:
    asked = Next("get_effect", {"action_id": "refund/47 11?"})
    assert routed(asked).path == "/api/v1/effects/refund%2F47%2011%3F"
    waited = Next("get_job", {"job_id": "job_1", "until": "finished", "wait_seconds": 30})
    assert routed(waited).route == "GET /api/v1/jobs/job_1?until=finished&wait_seconds=30"


async def test_what_the_problem_says_to_do_next_can_be_done(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.policy(ASK + "  - {id: more, when: {topic: more}, decision: allow}\n")

    refused = await api.approve(job, ada)
    step = refused.document["next"]
    assert step == {
        "operation": "refresh_approval",
        "method": "POST",
        "path": f"/api/v1/approvals/{job}/refresh",
        "arguments": {"job_id": job},
    }
    assert "/api/v1" not in refused.document["detail"]
    done = await api.call(step["method"], step["path"].removeprefix("/api/v1/"), ada, {})
    assert done.status == 200
    assert (await api.approve(job, ada)).word == "approved"


async def test_what_only_the_caller_knows_is_named(api: InProcessApi) -> None:
    bot, ada = await api.agent(roles="work"), await api.person("ada")
    begun = await api.call("POST", "effects/refund-1/begin", bot, {"request_hash": "sha256:0"})
    doubt = {"fence": begun.document["fence"], "error": "cut off", "safe_to_retry": False}
    await api.call("POST", "effects/refund-1/fail", bot, doubt)

    step = (await api.call("POST", "effects/refund-1/begin", bot, {"request_hash": "sha256:0"})).document[
        "next"
    ]

    assert (step["operation"], step["needs"]) == ("resolve_effect", ["outcome", "evidence"])
    said = {"outcome": "not_committed", "evidence": "asked the bank"}
    done = await api.call(step["method"], step["path"].removeprefix("/api/v1/"), ada, said)
    assert done.status == 200


async def test_a_problem_without_a_next_step_has_no_such_member(api: InProcessApi) -> None:
    missing = await api.call("GET", "jobs/job_none", api.admin)
    assert (missing.word, "next" in missing.document) == ("not_found", False)
