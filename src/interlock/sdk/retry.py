"""When to try again: three classes of trouble, each with its own patience.

    busy         409 `lock_busy` and other retryable conflicts, 423: somebody holds it, briefly
    full         429: the quota was evaluated and is used up; coming back soon makes it worse
    unavailable  502, 503, 504 and connection errors: nobody could evaluate it

Each waits by truncated exponential backoff with full jitter, drawn above the time the service asked for
(`Retry-After`, `retry_after_ms`), never below. Everything here is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from interlock.sdk.breaker import BreakerSettings
from interlock.sdk.budget import BudgetSettings

if TYPE_CHECKING:
    from interlock.sdk.problems import Problem

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
