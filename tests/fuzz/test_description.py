"""The running server held to its own description, with input made from it and against it."""

from __future__ import annotations

import itertools
from math import inf
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from interlock.api.assembly import OPERATIONS
from interlock.api.operations import Media
from tests.fuzz.conftest import Victim
from tests.harness.load import fire, post
from tests.harness.soak import dose
from tests.races.deployment import in_thread

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# A stream has no end to wait for.
STREAMS = {
    operation.id
    for operation in OPERATIONS
    for answer in operation.answers.values()
    if isinstance(answer, Media) and "event-stream" in answer.media_type
}
FUZZED = [operation.id for operation in OPERATIONS if operation.id not in STREAMS]
WITH_BODY = [operation.id for operation in OPERATIONS if operation.body and operation.id in FUZZED]
HANG_SECONDS = 60
WAIT_ALLOWED_EVERYWHERE = 60

bounded = settings(
    max_examples=dose(3),
    deadline=None,
    database=None,
    derandomize=dose(1) == 1,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture(scope="session")
def description(victim: Victim) -> Any:
    """The document as the server serves it."""
    return schemathesis.openapi.from_url(f"{victim.url}/openapi.json")


@pytest.fixture(scope="session")
def jobs(victim: Victim) -> list[str]:
    """Jobs that exist, so that not every id leads nowhere."""
    topics = ("pay", "pay.three", "read")
    bodies = [{"topic": topic, "payload": {"n": n}} for n in range(20) for topic in topics]
    requests = [post("/api/v1/jobs", body, headers=victim.headers) for body in bodies]
    return [answer.json()["id"] for answer in in_thread(fire(victim.url, requests))]


@pytest.mark.parametrize("operation_id", FUZZED)
def test_no_answer_breaks_the_description(
    victim: Victim, description: Any, jobs: list[str], operation_id: str
) -> None:
    operation = description.find_operation_by_id(operation_id)
    turns = itertools.count()

    @bounded
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        turn = next(turns)
        if "job_id" in (case.path_parameters or {}) and turn % 4:
            case.path_parameters["job_id"] = jobs[turn % len(jobs)]
        case.call_and_validate(**sent(victim, case), checks=CHECKS)

    ask()


@pytest.mark.parametrize("operation_id", WITH_BODY)
def test_what_the_description_forbids_is_refused(victim: Victim, description: Any, operation_id: str) -> None:
    operation = description.find_operation_by_id(operation_id)

    @bounded
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: Any) -> None:
        # A longer wait may be what is forbidden here; whatever else is, it is refused at once.
        request = sent(victim, case, shorten_up_to=WAIT_ALLOWED_EVERYWHERE)
        case.call_and_validate(**request, checks=[*CHECKS, negative_data_rejection])

    ask()


def sent(victim: Victim, case: Any, shorten_up_to: float = inf) -> dict[str, Any]:
    """The real key instead of made-up ones, and no waiting for what will not come."""
    for name in [name for name in case.headers or {} if name.lower() in ("authorization", "x-api-key")]:
        del case.headers[name]
    for part in (case.query, case.body):
        if isinstance(part, dict) and is_wait(part.get("wait_seconds"), shorten_up_to):
            part["wait_seconds"] = 0
    return {"headers": victim.headers, "timeout": HANG_SECONDS}


def is_wait(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most
