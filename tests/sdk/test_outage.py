"""What a crowd of default clients does to a service that goes away for half a minute."""

from __future__ import annotations

import functools
import random
from collections import Counter

import msgspec
import pytest

from interlock.sdk.flow import Request
from interlock.sdk.retry import BreakerSettings, OnRetry, Retry, RetryPolicy
from interlock.sdk.session import Session, exchange
from tests.sdk.virtual_time import Answered, VirtualTime, problem, refused, success

CLIENTS = 200
WARM_SECONDS = 120
OUTAGE_SECONDS = 30
AFTER_SECONDS = 30
BEGIN = 1000.0
DOWN = BEGIN + WARM_SECONDS
UP = DOWN + OUTAGE_SECONDS
END = UP + AFTER_SECONDS


class Crowd:
    """200 clients, one call a second each, through 2 warm minutes, 30 s of outage and 30 s after it."""

    def __init__(self, outage: Answered, policy: RetryPolicy, *, seed: int = 7) -> None:
        self.outage = outage
        self.sent: Counter[int] = Counter()  # by second since the beginning
        self.calls: Counter[int] = Counter()
        self.retried: Counter[int] = Counter()
        self.succeeded: Counter[int] = Counter()
        self.time = VirtualTime(self.serve, start=BEGIN)
        dice = random.Random(seed)
        for _ in range(CLIENTS):
            self.plan(
                Session(retry=policy, fraction=dice.random, on_retry=self.note()), BEGIN + dice.random()
            )
        self.time.play()

    def serve(self, request: Request, at: float) -> tuple[float, Answered]:
        self.sent[self.second(at)] += 1
        return (0.005, self.outage if DOWN <= at < UP else success())

    def note(self) -> OnRetry:
        def note(retry: Retry) -> None:
            self.retried[self.second(self.time.now + retry.delay_seconds)] += 1

        return note

    def plan(self, session: Session, at: float) -> None:
        def call() -> None:
            self.calls[self.second(self.time.now)] += 1
            request = Request(method="POST", path="/api/v1/jobs", headers={"idempotency-key": "k"})
            self.time.start(exchange(session, request), self.count)
            if self.time.now + 1 < END:
                self.time.at(self.time.now + 1, call)

        self.time.at(at, call)

    def count(self, ended: object) -> None:
        if not isinstance(ended, BaseException):
            self.succeeded[self.second(self.time.now)] += 1

    def second(self, at: float) -> int:
        return int(at - BEGIN)

    def during(self, counted: Counter[int], begin: float, end: float) -> int:
        return sum(counted[second] for second in range(int(begin - BEGIN), int(end - BEGIN)))


OUTAGES: dict[str, Answered] = {
    "refused": refused(),
    "503": problem(503, "store_unavailable", retry_after_ms=1000),
}
every_outage = pytest.mark.parametrize("outage", OUTAGES)
UNBROKEN = RetryPolicy(breaker=BreakerSettings(failures_max=10**9))


@functools.cache
def crowd_through(outage: str, policy: RetryPolicy) -> Crowd:
    """One simulation serves every test that asks about it."""
    return Crowd(OUTAGES[outage], policy)


@every_outage
def test_warm_clients_send_at_most_a_tenth_more_than_they_were_called_for(outage: str) -> None:
    crowd = crowd_through(outage, RetryPolicy())
    sent, retried = crowd.during(crowd.sent, DOWN, UP), crowd.during(crowd.retried, DOWN, UP)
    assert retried > 0
    assert sent / crowd.during(crowd.calls, DOWN, UP) <= 1.1
    assert sent / (sent - retried) <= 1.1


@every_outage
def test_the_budget_alone_holds_the_line_without_the_breaker(outage: str) -> None:
    crowd = crowd_through(outage, UNBROKEN)
    sent, calls = crowd.during(crowd.sent, DOWN, UP), crowd.during(crowd.calls, DOWN, UP)
    assert sent > calls
    assert sent / calls <= 1.1


@every_outage
def test_recovery_brings_no_spike_above_twice_the_steady_rate(outage: str) -> None:
    crowd = crowd_through(outage, RetryPolicy())
    steady = crowd.during(crowd.sent, BEGIN, DOWN) / WARM_SECONDS
    assert max(crowd.sent[second] for second in range(int(UP - BEGIN), int(END - BEGIN))) <= 2 * steady


@every_outage
def test_every_client_is_back_within_ten_seconds_of_recovery(outage: str) -> None:
    crowd = crowd_through(outage, RetryPolicy())
    assert crowd.during(crowd.succeeded, UP + 10, UP + 11) == CLIENTS


def test_the_breaker_spares_a_service_that_is_down() -> None:
    crowd, unbroken = crowd_through("refused", RetryPolicy()), crowd_through("refused", UNBROKEN)
    assert crowd.during(crowd.sent, DOWN + 10, UP) < unbroken.during(unbroken.sent, DOWN + 10, UP) / 2


def test_a_crowd_without_a_budget_would_break_the_line() -> None:
    """The control: the same crowd with a budget that never runs out amplifies well above a tenth."""
    generous = msgspec.structs.replace(
        UNBROKEN, budget=msgspec.structs.replace(UNBROKEN.budget, ratio=10.0, burst=1e9)
    )
    crowd = crowd_through("refused", generous)
    assert crowd.during(crowd.sent, DOWN, UP) / crowd.during(crowd.calls, DOWN, UP) > 2
