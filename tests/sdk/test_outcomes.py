"""Outcomes: each problem has one type, and each type says what to do next."""

from __future__ import annotations

import copy
import pickle

import pytest

from interlock import NotJson, PermitInvalid
from interlock.sdk import outcomes
from interlock.sdk.outcomes import InterlockError, Rejected, StillPending, outcome_of
from interlock.wire.codes import CODES
from interlock.wire.problem import Problem

EXPECTED = {
    "invalid_request": outcomes.InvalidRequest,
    "unauthenticated": outcomes.Unauthenticated,
    "forbidden": outcomes.Forbidden,
    "people_only": outcomes.Forbidden,
    "self_approval": outcomes.Forbidden,
    "not_eligible": outcomes.Forbidden,
    "not_found": outcomes.NotFound,
    "policy_denied": outcomes.Denied,
    "approval_expired": outcomes.Expired,
    "already_approved": outcomes.Conflict,
    "already_rejected": outcomes.Conflict,
    "snapshot_changed": outcomes.Conflict,
    "job_changed": outcomes.Conflict,
    "hash_mismatch": outcomes.Conflict,
    "target_changed": outcomes.Conflict,
    "not_actionable": outcomes.Conflict,
    "fence_stale": outcomes.Conflict,
    "superseded": outcomes.Conflict,
    "idempotency_key_reused": outcomes.Conflict,
    "action_id_reused": outcomes.Conflict,
    "lock_busy": outcomes.Busy,
    "effect_in_progress": outcomes.Busy,
    "effect_ambiguous": outcomes.Ambiguous,
    "outcome_unknown": outcomes.Ambiguous,
    "policy_throttled": outcomes.Full,
    "max_concurrent_runs": outcomes.Full,
    "rate_limited": outcomes.Full,
    "store_unavailable": outcomes.Unavailable,
    "admission_unavailable": outcomes.Unavailable,
    "policy_unavailable": outcomes.Unavailable,
    "overloaded": outcomes.Unavailable,
    "internal_error": outcomes.UnexpectedAnswer,
}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/topic", "topic is not valid; write words"),
        ("path/workflow", "workflow is not valid; write words"),
        ("/target/key", "target/key is not valid; write words"),
        ("", "what the service said"),
    ],
)
def test_one_wrong_place_of_a_request_is_told_by_its_name(path: str, told: str) -> None:
    fields = {"errors": [{"path": path, "reason": "is not valid; write words"}]}
    outcome = outcome_of(
        Problem(status=400, code="invalid_request", detail="what the service said", fields=fields)
    )
    assert str(outcome) == told


@pytest.mark.parametrize("code", sorted(EXPECTED))
def test_a_code_of_the_contract_has_its_own_outcome(code: str) -> None:
    info = CODES[code]
    outcome = outcome_of(Problem(status=info.status, code=code, detail=info.meaning))
    assert type(outcome) is EXPECTED[code]
    assert outcome.code == code


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_the_service_has_an_outcome_that_advises(code: str) -> None:
    info = CODES[code]
    outcome = outcome_of(Problem(status=info.status, code=code, detail=info.meaning))
    assert type(outcome) is not InterlockError
    assert outcome.for_agent().startswith(info.meaning)
    assert outcome.for_agent().endswith(".")


def test_a_busy_answer_is_busy_under_either_status() -> None:
    for status in (409, 423):
        assert type(outcome_of(Problem(status=status, code="lock_busy"))) is outcomes.Busy


def test_a_code_not_known_yet_is_judged_by_its_status() -> None:
    assert type(outcome_of(Problem(status=409, code="brand_new"))) is outcomes.Conflict
    assert type(outcome_of(Problem(status=418, code="brand_new"))) is outcomes.InvalidRequest
    assert type(outcome_of(Problem(status=507, code="brand_new"))) is outcomes.UnexpectedAnswer


def test_what_an_agent_is_shown_is_one_short_line() -> None:
    reason = "No.\n\nIgnore this:\t" + "x" * 10_000
    shown = Rejected(Problem(status=403, code="rejected", fields={"reason": reason})).for_agent()
    assert "\n" not in shown
    assert len(shown) < 1300
    assert 'rejected this action: "No. Ignore this: xxx' in shown


def test_still_pending_names_the_job_and_how_to_resume() -> None:
    pending = StillPending("job_1", state="APPROVAL", resume="call again")
    assert (pending.job_id, pending.state) == ("job_1", "APPROVAL")
    assert str(pending) == "job job_1 is still APPROVAL; call again"
    assert "do not submit it twice" in pending.for_agent()


PROBLEM = Problem(status=403, code="policy_denied", detail="no", fields={"job_id": "job_1"})
RAISED = (
    outcomes.Denied(PROBLEM),
    outcomes.Denied(PROBLEM, "in other words"),
    outcomes.Ambiguous(PROBLEM, key="refund-1"),
    StillPending("job_1", state="APPROVAL", resume="call again"),
    NotJson("amount", "it is a set"),
    PermitInvalid("expired", "it ran out"),
)


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
def test_an_outcome_reaches_another_process_as_it_was(raised: Exception) -> None:
    raised.add_note("on page 2")
    for again in (pickle.loads(pickle.dumps(raised)), copy.copy(raised)):
        assert type(again) is type(raised)
        assert (str(again), vars(again)) == (str(raised), vars(raised))
