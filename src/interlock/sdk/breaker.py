"""The circuit breaker: while a service is down, ask it now and then, not with every call.

    closed ──failures_max in a row──▶ open ──open_seconds──▶ half-open (one probe under way)
       ▲                               ▲                              │
       └────── any answer ─────────────┼────────── probe answered ────┤
                                       └────────── probe failed ──────┘

Only `unavailable` counts as failure; any other answer, even a refusal, shows that the service is there.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


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

        Whoever is let out reports back once, with `answered`, `failed` or `abandoned`.
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
