"""What keeps commands waiting just now, and the fault it ends in when a budget is spent.

Contention ends in `LockBusy`, a store that does not answer in `StoreUnavailable`, and a queue that is
merely long in `Overloaded`: none of them ever stands for another.
"""

from __future__ import annotations

from interlock.kernel.pending import Pending
from interlock.kernel.refusal import Fault, LockBusy, Overloaded, StoreUnavailable

_RETRY_SECONDS = (0.1, 30.0)


class Trouble:
    """Since when the store is locked as a whole, or does not answer. A commit ends either."""

    def __init__(self) -> None:
        self._locked_at: float | None = None
        self._down_at: float | None = None

    def locked(self, now: float) -> None:
        """Somebody else holds the whole store, which therefore answers."""
        self._down_at = None
        if self._locked_at is None:
            self._locked_at = now

    def down(self, now: float) -> None:
        """The store does not answer."""
        if self._down_at is None:
            self._down_at = now

    def over(self) -> None:
        """A batch went through."""
        self._locked_at = self._down_at = None

    def fault(self, spent: Pending, now: float, *, stuck_at: float | None, drain_seconds: float) -> Fault:
        """What to tell a command whose budget is spent. `stuck_at`: since when no lane got an answer."""
        within = f"within {spent.budget:g} s; nothing was decided"
        down_at = self._down_at if self._down_at is not None else stuck_at
        if down_at is not None:
            return StoreUnavailable(
                f"the store did not answer {within}", retry_after_seconds=_as_long_again(now - down_at)
            )
        blocked_at = spent.blocked_at if spent.blocked_at is not None else self._locked_at
        if blocked_at is not None:
            return LockBusy(
                f"another actor did not let go of a needed record {within}",
                retry_after_seconds=_as_long_again(now - blocked_at),
            )
        return Overloaded(f"the queue did not reach this call {within}", retry_after_seconds=drain_seconds)


def _as_long_again(seconds: float) -> float:
    """The best guess of how much longer something lasts: as long as it has lasted."""
    least, most = _RETRY_SECONDS
    return min(most, max(least, seconds))
