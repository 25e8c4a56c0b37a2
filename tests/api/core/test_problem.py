"""Problems have one form, and the table of codes keeps the contract."""

from __future__ import annotations

import json

import pytest

from interlock.api.problem import problem, problem_response
from interlock.wire.codes import CODES

CONTRACT = {
    "invalid_request": (400, False),
    "unauthenticated": (401, False),
    "forbidden": (403, False),
    "people_only": (403, False),
    "not_found": (404, False),
    "conflict": (409, False),
    "lock_busy": (409, True),
    "too_large": (413, False),
    "idempotency_key_reused": (422, False),
    "policy_throttled": (429, True),
    "max_concurrent_runs": (429, True),
    "rate_limited": (429, True),
    "store_unavailable": (503, True),
    "admission_unavailable": (503, True),
    "policy_unavailable": (503, True),
    "overloaded": (503, True),
    "outcome_unknown": (503, True),
}


@pytest.mark.parametrize("code", CONTRACT)
def test_a_code_of_the_contract_has_its_status_and_retryability(code: str) -> None:
    assert (CODES[code].status, CODES[code].retryable) == CONTRACT[code]


def test_full_is_never_503_and_unavailable_never_429() -> None:
    statuses = {info.status for info in CODES.values() if info.retryable}
    assert statuses == {409, 429, 503}
    assert all(info.retryable for info in CODES.values() if info.status in (429, 503))


@pytest.mark.parametrize("code", CODES)
def test_every_code_says_what_it_means_and_what_to_do(code: str) -> None:
    info = CODES[code]
    assert info.title
    assert info.meaning.endswith(".")
    assert info.next_step.endswith(".")


def test_a_problem_document_has_the_fields_of_rfc_9457_and_those_of_the_case() -> None:
    response = problem_response(problem("not_found", "no job job_1", members={"job_id": "job_1"}))
    assert response.status == 404
    assert response.header("content-type") == "application/problem+json"
    assert json.loads(response.body) == {
        "type": "/problems/not_found",
        "title": "Not found",
        "status": 404,
        "detail": "no job job_1",
        "code": "not_found",
        "retryable": False,
        "job_id": "job_1",
    }


@pytest.mark.parametrize(
    ("milliseconds", "header"),
    [(-5, "1"), (0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (59_999, "60"), (None, "1")],
)
def test_retry_after_is_in_whole_seconds_rounded_up_and_at_least_one(
    milliseconds: int | None, header: str
) -> None:
    response = problem_response(problem("overloaded", "full", retry_after_ms=milliseconds))
    assert response.header("retry-after") == header
    assert json.loads(response.body)["retry_after_ms"] >= 1


def test_the_status_of_lock_busy_can_be_set() -> None:
    response = problem_response(problem("lock_busy", "held", status=423, retry_after_ms=10))
    assert (response.status, json.loads(response.body)["status"]) == (423, 423)


def test_a_problem_that_cannot_be_retried_does_not_say_when() -> None:
    with pytest.raises(ValueError, match="not retryable"):
        problem("not_found", "gone", retry_after_ms=10)


def test_members_cannot_overwrite_what_every_problem_has() -> None:
    with pytest.raises(ValueError, match="overwrite"):
        problem("not_found", "gone", members={"status": 200})
