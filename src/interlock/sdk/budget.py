"""The retry budget: what keeps many polite clients from becoming one impolite crowd.

Every call earns a tenth of a retry; every retry spends a whole one. A new client starts with a small
allowance, so that a short script can ride out a restart. Once it is warm (as many calls as would have
earned the allowance) it keeps at most one unspent retry, so that hours of quiet cannot be saved up and
poured onto a service that is down: from then on any n calls in a row carry at most n/10 + 1 retries.
"""

from __future__ import annotations

import threading

import msgspec


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
