"""`drill retries`: compares one retry policy for everything with one per class, before, in and after an outage.

The clients are the SDK's own code, in virtual time, against a model of a deployment: a number of slots, runs of one
second, an outage, and a service that handles a bounded number of requests a second and refuses the rest.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from interlock.drills.report import Check, Contestant, Report, Steps, Tell, report, tell_nobody
from interlock.sdk.flow import Flow, Now, Request, Response, Send, Sleep
from interlock.sdk.retry import Backoff, BreakerSettings, BudgetSettings, RetryPolicy
from interlock.sdk.session import IDEMPOTENCY_KEY, Session, exchange

Serve = Callable[[Request, float], tuple[float, Response]]
Done = Callable[[object], None]


class VirtualTime:
    """Runs any number of flows; `serve` says how long a request takes and what comes back."""

    def __init__(self, serve: Serve) -> None:
        self.now = 0.0
        self._serve = serve
        self._turns: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Do something at a moment."""
        heapq.heappush(self._turns, (moment, next(self._order), action))

    def start(self, flow: Flow[Any], done: Done) -> None:
        """Begin a flow now; `done` gets its result or its exception."""
        self._advance(flow, None, done)

    def play(self) -> None:
        """Until nothing is left to do."""
        while self._turns:
            self.now, _, action = heapq.heappop(self._turns)
            action()

    def _advance(self, flow: Flow[Any], answer: object, done: Done) -> None:
        try:
            step = flow.send(answer)
            while isinstance(step, Now):
                step = flow.send(self.now)
        except StopIteration as end:
            done(end.value)
        except Exception as error:  # noqa: BLE001 - handed to the caller that started the flow
            done(error)
        else:
            self._schedule(flow, step, done)

    def _schedule(self, flow: Flow[Any], step: object, done: Done) -> None:
        if isinstance(step, Sleep):
            self.at(self.now + step.seconds, lambda: self._advance(flow, None, done))
        elif isinstance(step, Send):
            seconds, response = self._serve(step.request, self.now)
            self.at(self.now + seconds, lambda: self._advance(flow, response, done))
        else:
            raise TypeError(f"{type(step).__name__} has no place in a simulation")


WARM_SECONDS = 20
AFTER_SECONDS = 30
_EVERY_SECONDS = 1.0
_HOLD_SECONDS = 1.0
_LATENCY_SECONDS = 0.01
_ONE = Backoff(base_seconds=1.0, cap_seconds=1.0, multiplier=1.0, attempts_max=10)
START = Request(method="POST", path="/api/v1/workflows/w/runs", headers={IDEMPOTENCY_KEY: "key"})
# What many clients do: one timer for whatever goes wrong, deaf to what the service says, no budget, no breaker.
ONE_FOR_ALL = RetryPolicy(
    busy=_ONE,
    full=_ONE,
    unavailable=_ONE,
    deadline_seconds=60.0,
    budget=BudgetSettings(ratio=1000.0, allowance=1_000_000.0, burst=1_000_000.0),
    breaker=BreakerSettings(failures_max=1_000_000_000),
)


class Deployment:
    """A model: it admits while there are slots, carries `capacity` requests a second, and is out for a while."""

    def __init__(self, *, slots: int, capacity: int, outage: tuple[float, float], is_heard: bool) -> None:
        self._slots = slots
        self._is_heard = is_heard
        self._capacity = capacity
        self._outage = outage
        self._held: deque[float] = deque()
        self.requests: Counter[int] = Counter()

    def serve(self, request: Request, now: float) -> tuple[float, Response]:
        """One request's answer."""
        second = int(now)
        self.requests[second] += 1
        began, ended = self._outage
        if began <= now < ended:
            return _LATENCY_SECONDS, self._problem(503, "admission_unavailable", min(30.0, now - began + 0.1))
        if self.requests[second] > self._capacity:
            return _LATENCY_SECONDS, self._problem(503, "overloaded", second + 1 - now)
        while self._held and self._held[0] <= now:
            self._held.popleft()
        if len(self._held) >= self._slots:
            return _LATENCY_SECONDS, self._problem(429, "max_concurrent_runs", self._held[0] - now)
        self._held.append(now + _HOLD_SECONDS)
        return _LATENCY_SECONDS, Response(status=201, body=b"{}")

    def _problem(self, status: int, code: str, retry_after_seconds: float) -> Response:
        document: dict[str, object] = {"status": status, "code": code, "title": code, "retryable": True}
        if self._is_heard:
            document["retry_after_ms"] = max(1, round(retry_after_seconds * 1000))
        return Response(status=status, body=json.dumps(document).encode())


class _Crowd:
    """Clients that each want to start a run every second, and how many succeeded."""

    def __init__(self, policy: RetryPolicy, clients: int, outage_seconds: float, seed: int) -> None:
        self._rate = clients / _EVERY_SECONDS
        self.outage = (float(WARM_SECONDS), WARM_SECONDS + outage_seconds)
        self.ends = self.outage[1] + AFTER_SECONDS
        self.deployment = Deployment(
            slots=round(self._rate * _HOLD_SECONDS * 1.2),
            capacity=round(self._rate * 2),
            outage=self.outage,
            is_heard=policy is not ONE_FOR_ALL,
        )
        self._time = VirtualTime(self.deployment.serve)
        self._wishes: Counter[int] = Counter()
        self._granted: Counter[int] = Counter()
        draws = random.Random(seed)
        for _ in range(clients):
            session = Session(retry=policy, fraction=draws.random)
            while not session.budget.warm:
                session.budget.earn()
            self._schedule(session, draws.random() * _EVERY_SECONDS)

    def play(self, name: str, steps: Steps) -> Contestant:
        """Let time pass, and sum up."""
        steps.begin(f"{name}: virtual seconds")
        for second in range(int(self.ends)):
            self._time.at(second, steps.done)
        self._time.play()
        began, ended = int(self.outage[0]), int(self.outage[1])
        sent = self.deployment.requests
        seconds = range(int(self.ends))
        total = sum(sent[second] for second in seconds) / sum(self._wishes.values())
        steady = sum(sent[second] for second in range(began // 2, began)) / (began - began // 2)
        return Contestant(
            name=name,
            success_ratio=round(sum(self._granted.values()) / sum(self._wishes.values()), 4),
            amplification=round(total, 3),
            outage_amplification=round(
                sum(sent[second] for second in range(began, ended)) / (self._rate * (ended - began)), 3
            ),
            recovery_seconds=self._recovery(ended),
            peak_over_steady=round(max(sent[second] for second in range(ended, int(self.ends))) / steady, 2),
            requests_each_second=[sent[second] for second in seconds],
        )

    def _schedule(self, session: Session, first: float) -> None:
        moment = first
        while moment < self.ends:
            self._time.at(moment, lambda wished=int(moment): self._wish(session, wished))
            moment += _EVERY_SECONDS

    def _wish(self, session: Session, wished: int) -> None:
        self._wishes[wished] += 1

        def done(outcome: object) -> None:
            if not isinstance(outcome, Exception):
                self._granted[wished] += 1

        self._time.start(exchange(session, START), done)

    def _recovery(self, ended: int) -> float:
        """Seconds after the outage until wishes come true again as they did before, and keep doing so."""
        before = sum(self._granted[second] for second in range(ended)) / max(1, self._wished_before())
        bad = [
            second
            for second in range(ended, int(self.ends) - 5)
            if self._granted[second] < 0.95 * min(1.0, before + 0.05) * self._wishes[second]
        ]
        return float(max(bad) + 1 - ended) if bad else 0.0

    def _wished_before(self) -> int:
        return sum(self._wishes[second] for second in range(int(self.outage[0])))


def drill_retries(
    *, clients: int = 200, outage_seconds: float = 30, seed: int = 1, tell: Tell = tell_nobody
) -> Report:
    """Both policies through the same trouble."""
    steps = Steps(tell, 2 * int(WARM_SECONDS + outage_seconds + AFTER_SECONDS))
    one = _Crowd(ONE_FOR_ALL, clients, outage_seconds, seed).play("one for all", steps)
    split = _Crowd(RetryPolicy(), clients, outage_seconds, seed).play("split classes", steps)
    checks = [
        _checked(
            "split classes: requests at most 1.1 of first attempts in the outage",
            split.outage_amplification <= 1.1,
            f"{split.outage_amplification:.2f}",
            outage_seconds,
        ),
        _checked(
            "split classes: no spike above 2 of the steady rate afterwards",
            split.peak_over_steady <= 2,
            f"{split.peak_over_steady:.2f}",
            outage_seconds,
        ),
        _checked(
            "split classes put less load on the service than one policy for everything",
            split.amplification < one.amplification,
            f"{split.amplification:.2f} against {one.amplification:.2f}",
            outage_seconds,
        ),
    ]
    where = f"a model of {clients} clients and an outage of {outage_seconds:g} s, in virtual time"
    return report("retries", where, [], checks, contestants=[one, split])


def _checked(claim: str, held: bool, seen: str, outage_seconds: float) -> Check:
    """A client brings one saved retry into the outage; only over several calls is that a tenth of them or less."""
    budget = BudgetSettings()
    calls_min = budget.burst / budget.ratio
    if not held and outage_seconds / _EVERY_SECONDS < calls_min:
        enough = f"--outage {calls_min * _EVERY_SECONDS:.0f}s"
        return Check(claim=claim, held=None, seen=f"{seen}, of too few calls; use {enough} or more")
    return Check(claim=claim, held=held, seen=seen)
