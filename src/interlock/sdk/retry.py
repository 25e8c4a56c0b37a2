"""When to try again: three classes of failure, each with its own patience.

    busy         409 `lock_busy` and other retryable conflicts, 423: another caller holds it, briefly
    full         429: the quota was evaluated and is used up; coming back soon makes it worse
    unavailable  502, 503, 504 and connection errors: it could not be evaluated

Each waits by truncated exponential backoff with full jitter, added to the time the service asked for (`Retry-After`,
`retry_after_ms`). Everything here is a pure function of its arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from interlock.wire.problem import Problem


PROBE_SECONDS_MAX = 30.0


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`failures_max` in a row open the circuit; a probe may go out after about `open_seconds`."""

    failures_max: int = 5
    open_seconds: float = 3.0


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request may go out (`held_seconds` is None), and whether it is the probe."""

    held_seconds: float | None = None
    probe: bool = False


OPEN_ROAD = Admission()


class CircuitBreaker:
    """Decides, for one client, whether a request may go out now; safe to share between threads."""

    def __init__(self, settings: BreakerSettings, fraction: Callable[[], float]) -> None:
        """`fraction` draws from [0, 1): clients that failed together must not probe together."""
        self._settings = settings
        self._fraction = fraction
        self._failures = 0
        self._probe_at: float | None = None  # None while closed
        self._lock = threading.RLock()

    def admit(self, now: float) -> Admission:
        """Let a request out, as the probe if one is due, or say how long until the next probe.

        A call that is let through reports back once, with `answered`, `failed` or `abandoned`.
        """
        with self._lock:
            if self._probe_at is None:
                return OPEN_ROAD
            if now < self._probe_at:
                return Admission(held_seconds=min(self._probe_at - now, self._settings.open_seconds * 1.5))
            # A probe holds the road for a while, not for ever: its caller may die without a word.
            self._probe_at = now + PROBE_SECONDS_MAX
            return Admission(probe=True)

    def answered(self) -> None:
        """The service gave an answer of its own: close the circuit."""
        with self._lock:
            self._failures = 0
            self._probe_at = None

    def failed(self, admission: Admission, now: float) -> float | None:
        """The service could not answer; the seconds to the next probe if the circuit is open now."""
        with self._lock:
            self._failures += 1
            if self._probe_at is not None and not admission.probe:
                # Sent before the circuit opened: it says nothing new, and the probe's turn stays.
                return max(0.0, self._probe_at - now)
            if self._failures < self._settings.failures_max:
                return None
            self._probe_at = now + self._settings.open_seconds * (0.5 + self._fraction())
            return self._probe_at - now

    def abandoned(self, admission: Admission) -> None:
        """The caller went away before an answer: a probe's turn is free for the next."""
        with self._lock:
            if admission.probe and self._probe_at is not None:
                self._probe_at = 0.0

    def unlock_after_fork(self) -> None:
        """Forget a lock that a thread of the parent may have held at the fork."""
        self._lock = threading.RLock()


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` retries are earned per call, `allowance` are given at the start, `burst` are kept once warm."""

    ratio: float = 0.1
    allowance: float = 10.0
    burst: float = 1.0


class RetryBudget:
    """Counts retries against calls for one client; safe to share between threads."""

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._tokens = settings.allowance
        self._cold_calls = settings.allowance / settings.ratio if settings.ratio > 0 else 0.0
        self._lock = threading.RLock()

    @property
    def warm(self) -> bool:
        """Whether the initial allowance is over."""
        return self._cold_calls < 1

    def earn(self) -> None:
        """Count one call."""
        with self._lock:
            self._cold_calls -= 1
            kept_most = self._settings.burst if self.warm else self._settings.allowance
            # A hair above a tenth: ten earnings must make one retry in floating point too.
            self._tokens = min(kept_most, self._tokens + self._settings.ratio * (1 + 1e-9))

    def spend(self) -> bool:
        """Take one retry if there is one."""
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

    def unlock_after_fork(self) -> None:
        """Forget a lock that a thread of the parent may have held at the fork."""
        self._lock = threading.RLock()


RetryClass: TypeAlias = Literal["busy", "full", "unavailable"]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """One class's patience.

    The nth wait is drawn from [0, min(cap_seconds, base_seconds * multiplier^(n-1))) above what the
    service asked for. A call makes at most `attempts_max` attempts, the first included, and starts none
    after `deadline_share` of its deadline.
    """

    base_seconds: float
    cap_seconds: float
    multiplier: float = 2.0
    attempts_max: int = 5
    deadline_share: float = 1.0

    def ceiling_seconds(self, failures: int) -> float:
        """The most that jitter may add after this many failures of the class (1 is the first)."""
        # Capped exponent: a long series of failures must not overflow a float.
        return min(self.cap_seconds, self.base_seconds * self.multiplier ** min(failures - 1, 64))


BUSY = Backoff(base_seconds=0.05, cap_seconds=2.0, attempts_max=5)
FULL = Backoff(base_seconds=1.0, cap_seconds=30.0, multiplier=3.0, attempts_max=3, deadline_share=0.5)
UNAVAILABLE = Backoff(base_seconds=0.2, cap_seconds=10.0, attempts_max=5)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a client is: one `Backoff` a class, and what bounds all of them together."""

    busy: Backoff = BUSY
    full: Backoff = FULL
    unavailable: Backoff = UNAVAILABLE
    deadline_seconds: float = 30.0
    budget: BudgetSettings = BudgetSettings()
    breaker: BreakerSettings = BreakerSettings()

    def backoff(self, kind: RetryClass) -> Backoff:
        """The patience of one class."""
        match kind:
            case "busy":
                return self.busy
            case "full":
                return self.full
            case "unavailable":
                return self.unavailable


NO_RETRIES = RetryPolicy(
    busy=msgspec.structs.replace(BUSY, attempts_max=1),
    full=msgspec.structs.replace(FULL, attempts_max=1),
    unavailable=msgspec.structs.replace(UNAVAILABLE, attempts_max=1),
)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """What `on_retry` is told before each wait: `attempt` has just failed with `problem`."""

    kind: RetryClass
    attempt: int
    delay_seconds: float
    problem: Problem
    method: str
    path: str


OnRetry: TypeAlias = Callable[[Retry], object]


def classify(problem: Problem) -> RetryClass | None:
    """The class of a problem, or None if trying again cannot help."""
    if problem.retryable is False:
        return None
    if problem.status == 423 or problem.code == "lock_busy" or (problem.status == 409 and problem.retryable):
        return "busy"
    if problem.status == 429:
        return "full"
    return "unavailable" if problem.status in (0, 502, 503, 504) else None


def counts_as_outage(problem: Problem) -> bool:
    """Whether the breaker should count it.

    `policy_unavailable` is about one job: its expression failed or took too long. It must not keep
    this client's other calls from a service that is well.
    """
    return classify(problem) == "unavailable" and problem.code != "policy_unavailable"


def delay_seconds(backoff: Backoff, failures: int, problem: Problem, fraction: float) -> float:
    """How long to wait after the class's nth failure; `fraction` is drawn from [0, 1)."""
    floor = problem.retry_after_seconds or 0.0
    return floor + fraction * backoff.ceiling_seconds(failures)
