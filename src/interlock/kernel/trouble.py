"""What keeps commands waiting just now, and the fault it ends in when a budget is spent.

Contention ends in `LockBusy`, a store that does not answer in `StoreUnavailable`, and a queue that is
merely long in `Overloaded`: none of them ever stands for another.
"""

from __future__ import annotations

from interlock.kernel.pending import Pending
from interlock.kernel.refusal import Fault, LockBusy, Overloaded, StoreUnavailable
from interlock.kernel.storage import StoreDown, StoreUnwritable

_RETRY_SECONDS = (0.1, 30.0)


class Trouble:
    """Since when the store is locked as a whole, or does not answer, and why. A commit ends either."""

    def __init__(self) -> None:
        self._locked_at: float | None = None
        self._down_at: float | None = None
        self._down: StoreDown | None = None
        self._told: str | None = None

    def locked(self, now: float) -> None:
        """Somebody else holds the whole store, which therefore answers."""
        self._down_at = self._down = None
        if self._locked_at is None:
            self._locked_at = now

    def down(self, now: float, down: StoreDown) -> bool:
        """The store does not answer. Whether that is news: each cause is told once, until something is written."""
        if self._down_at is None:
            self._down_at = now
        self._down = down
        is_news = self._told != str(down)
        self._told = str(down)
        return is_news

    def over(self, *, wrote: bool) -> bool:
        """A batch went through. Whether that ends an outage that was told.

        One that wrote nothing says nothing about a store that takes no writes.
        """
        self._locked_at = None
        if wrote or not isinstance(self._down, StoreUnwritable):
            self._down_at = self._down = None
        was_told = wrote and self._told is not None
        self._told = None if wrote else self._told
        return was_told

    def fault(self, spent: Pending, now: float, *, stuck_at: float | None, drain_seconds: float) -> Fault:
        """What to tell a command whose budget is spent. `stuck_at`: since when no lane got an answer."""
        within = f"within {spent.budget:g} s; nothing was decided"
        down_at = self._down_at if self._down_at is not None else stuck_at
        if down_at is not None:
            why = (
                f"the store did not answer {within}"
                if self._down is None
                else f"{self._down}; nothing was decided"
            )
            return StoreUnavailable(why, retry_after_seconds=_as_long_again(now - down_at))
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
