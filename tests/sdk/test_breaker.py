"""The circuit breaker, state by state and seen from the calls it holds back."""

from __future__ import annotations

import os
import signal

import pytest

from interlock.sdk.flow import Request, Send
from interlock.sdk.outcomes import Busy, Unavailable
from interlock.sdk.retry import NO_RETRIES, BreakerSettings, CircuitBreaker
from interlock.sdk.session import Session, exchange
from tests.sdk.virtual_time import Script, VirtualTime, problem, refused, success

READ = Request(method="GET", path="/api/v1/jobs")
SETTINGS = BreakerSettings(failures_max=3, open_seconds=4.0)


def opened(at: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker(SETTINGS, lambda: 0.5)
    for _ in range(3):
        breaker.failed(breaker.admit(at), at)
    return breaker


def test_it_stays_closed_until_the_failures_come_in_a_row() -> None:
    breaker = CircuitBreaker(SETTINGS, lambda: 0.5)
    for _ in range(10):
        assert breaker.failed(breaker.admit(0), 0) is None
        assert breaker.failed(breaker.admit(0), 0) is None
        breaker.answered()
    assert breaker.admit(0).held_seconds is None


def test_while_open_nothing_goes_out_and_the_wait_is_told() -> None:
    breaker = opened()
    assert breaker.admit(1.0).held_seconds == pytest.approx(3.0)
    assert breaker.admit(3.9).held_seconds == pytest.approx(0.1)


def test_half_open_lets_exactly_one_probe_out() -> None:
    breaker = opened()
    admitted = [breaker.admit(4.0) for _ in range(20)]
    assert [admission.probe for admission in admitted] == [True] + [False] * 19
    assert all(admission.held_seconds for admission in admitted[1:])


def test_a_probe_that_is_answered_closes_it_and_one_that_fails_opens_it_again() -> None:
    breaker = opened()
    assert breaker.failed(breaker.admit(4.0), 5.0) == pytest.approx(4.0)
    assert breaker.admit(8.9).held_seconds == pytest.approx(0.1)
    assert breaker.admit(9.0).probe
    breaker.answered()
    assert breaker.admit(9.0).held_seconds is None


def test_an_abandoned_probe_leaves_its_turn_to_the_next() -> None:
    breaker = opened()
    breaker.abandoned(breaker.admit(4.0))
    assert breaker.admit(4.0).probe


def test_a_probe_whose_caller_died_does_not_close_the_road_for_ever() -> None:
    breaker = opened()
    assert breaker.admit(4.0).probe
    assert breaker.admit(4.1).held_seconds
    assert breaker.admit(40.0).probe


def test_a_failure_from_before_it_opened_does_not_take_the_probes_turn() -> None:
    breaker = CircuitBreaker(SETTINGS, lambda: 0.5)
    late = breaker.admit(0)
    for _ in range(3):
        breaker.failed(breaker.admit(0), 0)
    probe = breaker.admit(4.0)
    breaker.failed(late, 4.1)
    assert probe.probe
    assert not breaker.admit(4.2).probe


def test_clients_that_failed_together_do_not_probe_together() -> None:
    early, late = CircuitBreaker(SETTINGS, lambda: 0.0), CircuitBreaker(SETTINGS, lambda: 0.999)
    for breaker in (early, late):
        for _ in range(3):
            breaker.failed(breaker.admit(0), 0)
    assert early.admit(2.0).probe
    assert late.admit(5.9).held_seconds


def test_an_open_circuit_fails_the_call_at_once_with_the_time_of_the_next_probe() -> None:
    session = Session(retry=NO_RETRIES, fraction=lambda: 0.5)
    script = Script(refused())
    time = VirtualTime(script)
    for _ in range(5):
        with pytest.raises(Unavailable):
            time.run(exchange(session, READ))
    with pytest.raises(Unavailable) as caught:
        time.run(exchange(session, READ))
    assert len(script.sent) == 5
    assert caught.value.code == "circuit_open"
    assert caught.value.retry_after_seconds == pytest.approx(3.0)


def test_a_refusal_shows_that_the_service_is_there() -> None:
    session = Session(retry=NO_RETRIES)
    time = VirtualTime(Script(*([refused()] * 4), problem(409, "lock_busy"), *([refused()] * 4), success()))
    for expected in [Unavailable] * 4 + [Busy] + [Unavailable] * 4:
        with pytest.raises(expected):
            time.run(exchange(session, READ))
    assert time.run(exchange(session, READ)).status == 200


def test_a_job_whose_policy_cannot_be_evaluated_does_not_stop_other_calls() -> None:
    session = Session(retry=NO_RETRIES)
    script = Script(*([problem(503, "policy_unavailable")] * 20), success())
    time = VirtualTime(script)
    for _ in range(20):
        with pytest.raises(Unavailable):
            time.run(exchange(session, READ))
    assert time.run(exchange(session, READ)).status == 200


def test_a_cancelled_call_gives_its_probe_back() -> None:
    session = Session(retry=NO_RETRIES, fraction=lambda: 0.5)
    time = VirtualTime(Script(refused()))
    for _ in range(5):
        with pytest.raises(Unavailable):
            time.run(exchange(session, READ))
    probe = exchange(session, READ)
    step = next(probe)
    while not isinstance(step, Send):
        step = probe.send(time.now + 3.0)
    probe.close()
    assert session.breaker.admit(time.now + 3.0).probe


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_another_threads_call_does_not_stop_the_child() -> None:
    session = Session()
    with session.budget._lock, session.breaker._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that waits for the parent's thread would wait for ever
            os._exit(0 if VirtualTime(Script(success())).run(exchange(session, READ)).status == 200 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
