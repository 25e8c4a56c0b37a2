"""The retry classes, on a virtual clock."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.sdk.flow import Request, Response
from interlock.sdk.outcomes import (
    Ambiguous,
    Busy,
    Conflict,
    Full,
    InterlockError,
    InvalidRequest,
    Unavailable,
    read_problem,
)
from interlock.sdk.retry import (
    BUSY,
    FULL,
    NO_RETRIES,
    UNAVAILABLE,
    Backoff,
    BudgetSettings,
    Retry,
    RetryPolicy,
    classify,
    delay_seconds,
)
from interlock.sdk.session import Session, exchange
from interlock.wire.problem import Problem
from tests.sdk.virtual_time import Script, VirtualTime, cut, drain, problem, refused, success

READ = Request(method="GET", path="/api/v1/jobs/job_1")
KEYED = Request(method="POST", path="/api/v1/jobs", headers={"idempotency-key": "k"}, body=b"{}")
UNKEYED = Request(method="POST", path="/api/v1/jobs", body=b"{}")


def send(script: Script, request: Request, session: Session | None = None) -> Response:
    return VirtualTime(script).run(exchange(session or Session(fraction=lambda: 0.5), request, name="n"))


def failed(script: Script, request: Request, session: Session | None = None) -> InterlockError:
    with pytest.raises(InterlockError) as caught:
        send(script, request, session)
    return caught.value


def test_busy_full_and_unavailable_each_end_in_their_own_outcome() -> None:
    assert type(failed(Script(problem(409, "lock_busy")), KEYED)) is Busy
    assert type(failed(Script(problem(423, "lock_busy")), KEYED)) is Busy
    assert type(failed(Script(problem(429, "max_concurrent_runs")), KEYED)) is Full
    assert type(failed(Script(problem(503, "store_unavailable")), KEYED)) is Unavailable
    assert type(failed(Script(refused()), KEYED)) is Unavailable


@pytest.mark.parametrize(
    ("answer", "backoff"),
    [
        (problem(409, "lock_busy"), BUSY),
        (problem(429, "rate_limited"), FULL),
        (problem(503, "overloaded"), UNAVAILABLE),
        (refused(), UNAVAILABLE),
    ],
)
def test_a_class_makes_no_more_attempts_than_it_allows(answer: Response, backoff: Backoff) -> None:
    script = Script(answer)
    failed(script, KEYED)
    assert len(script.sent) == backoff.attempts_max


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422])
def test_a_refusal_that_is_not_retryable_is_never_retried(status: int) -> None:
    script = Script(problem(status, "some_code"))
    failed(script, KEYED)
    assert len(script.sent) == 1


def test_a_fault_of_the_server_is_not_retried() -> None:
    script = Script(Response(status=500, body=b"oops"))
    failed(script, KEYED)
    assert len(script.sent) == 1


def test_a_problem_that_says_it_is_not_retryable_is_believed() -> None:
    script = Script(problem(503, "store_unavailable", retryable=False))
    failed(script, KEYED)
    assert len(script.sent) == 1


def test_the_first_success_ends_the_call() -> None:
    script = Script(problem(409, "lock_busy"), problem(503, "overloaded"), success(200, ok=True))
    assert send(script, KEYED).status == 200
    assert len(script.sent) == 3


def test_every_attempt_carries_the_same_idempotency_key() -> None:
    script = Script(problem(503, "overloaded"), cut(), success())
    send(script, KEYED)
    assert {request.headers["idempotency-key"] for request in script.requests} == {"k"}
    assert {request.body for request in script.requests} == {b"{}"}


def test_an_unkeyed_post_is_never_sent_again_once_it_may_have_been_received() -> None:
    for answer in (
        cut(),
        problem(503, "outcome_unknown"),
        problem(503, "store_unavailable"),
        problem(429, "x"),
    ):
        script = Script(answer)
        failed(script, UNKEYED)
        assert len(script.sent) == 1


def test_an_unkeyed_put_is_not_repeated_either_for_it_could_undo_what_came_since() -> None:
    script = Script(cut())
    failed(script, Request(method="PUT", path="/api/v1/policy", body=b"{}"))
    assert len(script.sent) == 1


def test_an_unkeyed_post_that_never_arrived_is_sent_again() -> None:
    script = Script(refused(), success())
    send(script, UNKEYED)
    assert len(script.sent) == 2


def test_an_unknown_outcome_is_asked_again_under_its_key() -> None:
    script = Script(problem(503, "outcome_unknown"), success())
    send(script, KEYED)
    assert len(script.sent) == 2


def test_a_change_that_may_have_happened_ends_as_ambiguous_and_says_how_to_settle_it() -> None:
    error = failed(Script(cut(), refused()), KEYED)
    assert isinstance(error, Ambiguous)
    assert error.key == "n"
    assert "key='n'" in str(error)


def test_a_change_that_surely_did_not_happen_is_not_called_ambiguous() -> None:
    assert type(failed(Script(problem(503, "store_unavailable"), refused()), KEYED)) is Unavailable


def test_a_clear_answer_settles_an_earlier_doubt() -> None:
    assert type(failed(Script(cut(), problem(409, "job_changed")), KEYED)) is Conflict


def test_a_read_is_never_ambiguous() -> None:
    assert type(failed(Script(cut()), READ)) is Unavailable


def test_a_wait_is_never_shorter_than_the_service_asked_for() -> None:
    script = Script(problem(429, "rate_limited", retry_after_ms=1700), success())
    send(script, KEYED, Session(fraction=lambda: 0.0))
    assert script.waits == pytest.approx([1.7])


def test_the_precise_estimate_is_preferred_to_the_rounded_header() -> None:
    answer = problem(503, "overloaded", headers={"retry-after": "1"}, retry_after_ms=120)
    assert read_problem(answer).retry_after_seconds == 0.12


def test_the_header_counts_when_there_is_no_estimate() -> None:
    assert read_problem(problem(503, "overloaded", headers={"retry-after": "7"})).retry_after_seconds == 7
    assert read_problem(Response(status=503, headers={"retry-after": "3"})).retry_after_seconds == 3


def test_a_retry_after_date_is_measured_from_the_answers_own_date() -> None:
    headers = {"date": "Sun, 15 Nov 2026 10:00:00 GMT", "retry-after": "Sun, 15 Nov 2026 10:00:09 GMT"}
    assert read_problem(Response(status=503, headers=headers)).retry_after_seconds == 9
    assert read_problem(Response(status=503, headers={"retry-after": "soon"})).retry_after_seconds is None


def test_a_wait_that_would_outlast_the_deadline_is_not_begun() -> None:
    script = Script(problem(503, "overloaded", retry_after_ms=31_000))
    time = VirtualTime(script)
    with pytest.raises(Unavailable) as caught:
        time.run(exchange(Session(), KEYED))
    assert time.now == 1000.0
    assert caught.value.retry_after_seconds == 31


def test_an_attempt_is_timed_out_no_later_than_the_deadline() -> None:
    policy = RetryPolicy(deadline_seconds=3.0)
    script = Script(cut(), latency=1.0)
    failed(script, KEYED, Session(retry=policy, fraction=lambda: 0.0, timeout_seconds=2.0))
    for at, request in script.sent:
        assert at + request.timeout_seconds <= 1003.0 + 1e-9


def test_full_stops_sooner_and_waits_longer_than_unavailable() -> None:
    full, unavailable = Script(problem(429, "rate_limited")), Script(problem(503, "overloaded"))
    failed(full, KEYED)
    failed(unavailable, KEYED)
    assert len(full.sent) < len(unavailable.sent)
    assert all(slow > quick for slow, quick in zip(full.waits, unavailable.waits, strict=False))
    for failures in range(1, 20):
        assert FULL.ceiling_seconds(failures) > UNAVAILABLE.ceiling_seconds(failures)
    assert FULL.deadline_share < UNAVAILABLE.deadline_share


def test_the_hook_is_told_class_attempt_delay_and_problem_before_each_wait() -> None:
    told: list[Retry] = []
    script = Script(problem(409, "lock_busy", holder={"principal": "ann"}), refused(), success())
    send(script, KEYED, Session(on_retry=told.append, fraction=lambda: 0.5))
    assert [(retry.kind, retry.attempt, retry.problem.code) for retry in told] == [
        ("busy", 1, "lock_busy"),
        ("unavailable", 2, "no_answer"),
    ]
    assert [retry.delay_seconds for retry in told] == pytest.approx(script.waits)


def test_without_retries_one_attempt_is_all() -> None:
    script = Script(problem(503, "overloaded"))
    failed(script, KEYED, Session(retry=NO_RETRIES))
    assert len(script.sent) == 1


def test_an_invalid_request_lists_its_faults() -> None:
    faults = [{"path": "/payload/amount", "reason": "not a number"}]
    error = failed(Script(problem(400, "invalid_request", errors=faults)), KEYED)
    assert isinstance(error, InvalidRequest)
    assert [(fault.path, fault.reason) for fault in error.errors] == [("/payload/amount", "not a number")]


def test_gateway_errors_are_retried_only_where_repeating_is_harmless() -> None:
    for status in (502, 504):
        keyed, unkeyed = Script(Response(status=status), success()), Script(Response(status=status))
        send(keyed, KEYED)
        failed(unkeyed, UNKEYED)
        assert (len(keyed.sent), len(unkeyed.sent)) == (2, 1)


backoffs = st.builds(
    Backoff,
    base_seconds=st.floats(0.001, 5),
    cap_seconds=st.floats(0.001, 100),
    multiplier=st.floats(1, 10),
    attempts_max=st.integers(1, 12),
    deadline_share=st.floats(0.1, 1),
)


@given(
    backoff=backoffs,
    failures=st.integers(1, 10_000),
    floor=st.one_of(st.none(), st.floats(0, 1000)),
    fraction=st.floats(0, 1, exclude_max=True),
)
def test_jitter_lies_above_the_floor_and_below_the_cap(
    backoff: Backoff, failures: int, floor: float | None, fraction: float
) -> None:
    told = Problem(status=503, code="overloaded", retry_after_seconds=floor)
    delay = delay_seconds(backoff, failures, told, fraction)
    assert (floor or 0) <= delay <= (floor or 0) + backoff.cap_seconds


@given(backoff=backoffs, failures=st.integers(1, 200))
def test_the_ceiling_grows_until_the_cap(backoff: Backoff, failures: int) -> None:
    assert backoff.ceiling_seconds(failures) <= backoff.ceiling_seconds(failures + 1) <= backoff.cap_seconds


@given(
    backoff=backoffs,
    deadline=st.floats(1, 60),
    floors=st.lists(st.integers(0, 5000), max_size=12),
    seed=st.integers(),
)
def test_no_call_outlives_its_deadline_or_its_attempts(
    backoff: Backoff, deadline: float, floors: list[int], seed: int
) -> None:
    policy = RetryPolicy(unavailable=backoff, deadline_seconds=deadline, budget=BudgetSettings(allowance=100))
    session = Session(retry=policy, fraction=random.Random(seed).random)
    script = Script(*(problem(503, "policy_unavailable", retry_after_ms=floor) for floor in [*floors, 0]))
    time = VirtualTime(script)
    with pytest.raises(Unavailable):
        time.run(exchange(session, KEYED))
    assert len(script.sent) <= backoff.attempts_max
    assert time.now - 1000.0 <= deadline * backoff.deadline_share
    for wait, floor in zip(script.waits, floors, strict=False):
        assert wait >= floor / 1000 - 1e-9


def test_full_jitter_uses_the_whole_range() -> None:
    session = Session(fraction=drain([0.0, 0.999]))
    script = Script(refused(), refused(), success())
    send(script, KEYED, session)
    assert script.waits == pytest.approx([0.0, 0.999 * UNAVAILABLE.ceiling_seconds(2)])


def test_nothing_but_the_three_classes_is_retryable() -> None:
    for status in [*range(100, 423), *range(424, 429), *range(430, 502), *range(505, 600)]:
        assert classify(Problem(status=status, code="x")) is None
