"""What the calls of one client share, and the retry loop of one call.

`exchange` is that loop: attempt, classify, wait, attempt again, until there is an answer or the class's attempts, the
deadline, the retry budget or the circuit breaker end it. A request that may have been received is sent again only if
repeating it is harmless: a read, or a change under an idempotency key.
"""

from __future__ import annotations

import logging
import os
import sys
import weakref
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING

import msgspec

from interlock.sdk.flow import (
    SAY_AFTER_SECONDS,
    Flow,
    Request,
    Response,
    Say,
    TransportFailed,
    now,
    send,
    sleep,
)
from interlock.sdk.outcomes import (
    Ambiguous,
    InterlockError,
    circuit_open,
    no_answer,
    outcome_of,
    read_problem,
)
from interlock.sdk.retry import (
    Backoff,
    CircuitBreaker,
    OnRetry,
    Retry,
    RetryBudget,
    RetryClass,
    RetryPolicy,
    classify,
    counts_as_outage,
    delay_seconds,
)
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("interlock")

IDEMPOTENCY_KEY = "idempotency-key"
READS = frozenset({"GET", "HEAD"})
UNKNOWN_OUTCOME = frozenset({"outcome_unknown", "unexpected_answer"})
ATTEMPT_SECONDS_MIN = 0.5  # with less left of the deadline an attempt would only add doubt


class Session:
    """One client's identity, patience and memory of how the service has been doing."""

    def __init__(
        self,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        on_retry: OnRetry | None = None,
        on_wait: Callable[[str], object] | None = None,
        timeout_seconds: float = 10.0,
        in_session: str | None = None,
        fraction: Callable[[], float] | None = None,
    ) -> None:
        """`in_session` is the session that leases are acquired in unless a call names another.

        `fraction` draws jitter from [0, 1); by default from the system, so forked clients differ.

        `on_wait` is told in one line of whatever has been waited for longer than a second; by default the log is.
        """
        self.key = key
        self.retry = retry or RetryPolicy()
        self.on_retry = on_retry
        self.on_wait = on_wait or log.info
        self.timeout_seconds = timeout_seconds
        self.in_session = in_session
        self.fraction = fraction or _system_fraction
        self.budget = RetryBudget(self.retry.budget)
        self.breaker = CircuitBreaker(self.retry.breaker, self.fraction)
        self.via = "sdk"  # what the service is told of where a person decides
        self.long_polls = True  # until the service refuses the parameters
        _sessions.add(self)

    def names(self, session: str | None) -> str | None:
        """The session of a lease that a call names, else the client's; None if there is none."""
        return (self.in_session if session is None else session) or None

    def says(
        self, waits_for: str, seconds: float | None, *, until: datetime | None = None, aloud: bool = False
    ) -> Say | None:
        """What tells, once, that something is waited for: for at most `seconds`, or until a moment. None if it is
        over within a second. `aloud` prints it too, for a person who watches a program that stands still.
        """
        if seconds is not None and seconds <= SAY_AFTER_SECONDS:
            return None
        ends_at = until if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        line = f"waiting for {waits_for}"
        if ends_at is not None:
            line += f", until {ends_at:%Y-%m-%dT%H:%M:%SZ} at the latest"
        said: list[str] = []

        def say() -> None:
            if not said:
                said.append(line)
                self.on_wait(line)
                if aloud:
                    print(f"interlock: {line}", file=sys.stderr)  # noqa: T201 - a person may be waiting

        return say


def exchange(
    session: Session,
    request: Request,
    *,
    name: str | None = None,
    named_by: str | None = None,
    is_question: bool = False,
    hold_seconds: float = 0.0,
    busy_seconds: float | None = None,
    say: Say | None = None,
    deadline_seconds: float = inf,
) -> Flow[Response]:
    """Send `request` until it is answered with success; raise the typed outcome if it will not be.

    `name` is what the caller can repeat the call under; an `Ambiguous` outcome carries it. It is behind the
    idempotency key, unless the field `named_by` of the request itself has it: then to repeat it is harmless too, as
    is a question, which changes nothing by whatever method it is asked. A long poll asks the service to hold it for
    `hold_seconds`, which do not count against its timeout and deadline.
    `deadline_seconds` may shorten the policy's deadline, never lengthen it. `busy_seconds` bounds what the classes
    `busy` and `full` may take in all, the first attempt included: after 0 they are not tried again. `say` is called
    once an attempt has taken longer than a second.
    """
    started = moment = yield from now()
    patience = hold_seconds + min(deadline_seconds, session.retry.deadline_seconds)
    trial = _Trial(
        session,
        request,
        named_by=named_by,
        is_read=is_question or request.method in READS,
        started=started,
        timeout_seconds=session.timeout_seconds + hold_seconds,
        deadline_seconds=patience,
        busy_seconds=busy_seconds,
        say=say,
    )
    while True:
        answer = yield from _attempt(session, trial, moment)
        if isinstance(answer, Response):
            return answer
        delay = trial.delay_after(answer, (yield from now()))
        if delay is None:
            raise trial.outcome(answer.problem, name)
        yield from sleep(delay)
        moment = yield from now()


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt without success."""

    problem: Problem
    may_have_been_received: bool
    circuit_open: bool = False


def _attempt(session: Session, trial: _Trial, moment: float) -> Flow[Response | _Failure]:
    """Send once, if the breaker lets it, and tell the breaker how it went."""
    admission = session.breaker.admit(moment)
    if admission.held_seconds is not None:
        held = circuit_open(admission.held_seconds)
        return _Failure(problem=held, may_have_been_received=False, circuit_open=True)
    try:
        answer = yield from _answer(trial.next_request(moment), trial.say)
    except BaseException:
        session.breaker.abandoned(admission)
        raise
    if isinstance(answer, Response) or not counts_as_outage(answer.problem):
        session.breaker.answered()
        return answer
    held_seconds = session.breaker.failed(admission, (yield from now()))
    return answer if held_seconds is None else _opened(answer, held_seconds)


def _answer(request: Request, say: Say | None) -> Flow[Response | _Failure]:
    try:
        response = yield from send(request, say)
    except TransportFailed as failed:
        received = failed.may_have_been_received
        return _Failure(problem=no_answer(failed.reason), may_have_been_received=received)
    if 200 <= response.status < 300:
        return response
    return _Failure(problem=read_problem(response), may_have_been_received=True)


class _Trial:
    """One call on its way: what it has tried, and whether it may try again."""

    def __init__(
        self,
        session: Session,
        request: Request,
        *,
        named_by: str | None,
        is_read: bool,
        started: float,
        timeout_seconds: float,
        deadline_seconds: float,
        busy_seconds: float | None,
        say: Say | None,
    ) -> None:
        self.session = session
        self.request = request
        self.named_by = named_by
        self.is_read = is_read
        self.started = started
        self.timeout_seconds = timeout_seconds
        self.deadline_seconds = deadline_seconds
        self.busy_seconds = busy_seconds
        self.say = say
        self.attempts = 0
        self.failures: dict[RetryClass, int] = {}
        self.unknown = False
        self._sent_at = started

    def next_request(self, moment: float) -> Request:
        """The request for the next attempt, timed out no later than the call's deadline."""
        self.attempts += 1
        self._sent_at = moment
        if self.attempts == 1:
            self.session.budget.earn()
        left = max(ATTEMPT_SECONDS_MIN, self.started + self.deadline_seconds - moment)
        return msgspec.structs.replace(
            self.request, timeout_seconds=min(self.timeout_seconds, left), only_asks=self.is_read
        )

    def delay_after(self, failure: _Failure, moment: float) -> float | None:
        """The wait before the next attempt, or None if there shall be none."""
        kind = classify(failure.problem)
        if self._leaves_doubt(failure):
            self.unknown = True
        if kind is None or failure.circuit_open or not self._may_repeat(failure):
            return None
        backoff = self.session.retry.backoff(kind)
        self.failures[kind] = self.failures.get(kind, 0) + 1
        delay = delay_seconds(backoff, self.failures[kind], failure.problem, self.session.fraction())
        latest = self.started + self._patience(kind, backoff) - self._needed(failure, moment)
        if (
            self.attempts >= backoff.attempts_max
            or moment + delay > latest
            or not self.session.budget.spend()
        ):
            return None
        self._announce(kind, delay, failure.problem)
        return delay

    def _patience(self, kind: RetryClass, backoff: Backoff) -> float:
        """How long after the start the last attempt may begin, for trouble of this class."""
        seconds = self.deadline_seconds * backoff.deadline_share
        if kind == "unavailable" or self.busy_seconds is None:
            return seconds
        return min(seconds, self.busy_seconds)

    def _needed(self, failure: _Failure, moment: float) -> float:
        """How long the next attempt must have, at least as long as the service took to answer this one.

        One that is cut off before the service can say again that it is busy would only add doubt.
        """
        took = moment - self._sent_at if failure.problem.status else 0.0
        return max(ATTEMPT_SECONDS_MIN, took)

    def outcome(self, problem: Problem, name: str | None) -> InterlockError:
        """How the call ends: unknown if any attempt may have done it and no answer settled that."""
        if self.unknown and classify(problem) is not None:
            return Ambiguous(problem, _doubt(problem, self.named_by or "key", name), key=name)
        return outcome_of(problem)

    def _may_repeat(self, failure: _Failure) -> bool:
        is_named = IDEMPOTENCY_KEY in self.request.headers or self.named_by is not None
        return is_named or self.is_read or not failure.may_have_been_received

    def _leaves_doubt(self, failure: _Failure) -> bool:
        if self.is_read or not failure.may_have_been_received:
            return False
        return failure.problem.status == 0 or failure.problem.code in UNKNOWN_OUTCOME

    def _announce(self, kind: RetryClass, delay: float, problem: Problem) -> None:
        if self.session.on_retry is not None:
            self.session.on_retry(
                Retry(
                    kind=kind,
                    attempt=self.attempts,
                    delay_seconds=delay,
                    problem=problem,
                    method=self.request.method,
                    path=self.request.path,
                )
            )


def _opened(failure: _Failure, held_seconds: float) -> _Failure:
    """The failure that opened the circuit: no use in asking before the next probe."""
    wait = max(held_seconds, failure.problem.retry_after_seconds or 0.0)
    problem = msgspec.structs.replace(failure.problem, retry_after_seconds=wait)
    return msgspec.structs.replace(failure, problem=problem, circuit_open=True)


def _doubt(problem: Problem, field: str, name: str | None) -> str:
    repeat = f"; the same call with {field}={name!r} tells, and cannot do it twice" if name else ""
    return f"it may have been done: {problem.detail or problem.title or problem.code}{repeat}"


def _system_fraction() -> float:
    from random import SystemRandom  # only a client in trouble needs it

    return SystemRandom().random()


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _unlock_after_fork() -> None:
    for session in _sessions:
        session.budget.unlock_after_fork()
        session.breaker.unlock_after_fork()


os.register_at_fork(after_in_child=_unlock_after_fork)
