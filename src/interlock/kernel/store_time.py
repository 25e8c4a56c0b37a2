"""The store's time and state as of the last batch, for reads that do not ask the store.

Decisions use the store's clock, and pages must not contradict them. On PostgreSQL, the server that shows a request
may have a wrong clock; on SQLite, one wrong reading of the machine's clock stays in the file. So every batch compares
the store's clock with this machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from interlock.kernel.store_state import FRESH, StoreState

# How far the store's clock may be from the machine's before that is trouble: who checks permits allows no more.
CLOCK_TOLERANCE = timedelta(seconds=5)

_NOTHING = timedelta()
# To read the store's clock takes a while, so clocks that agree differ by as long.
_AGREEING = timedelta(seconds=1)


class StoreTime:
    """This machine's time, put right by how far the store's clock was from it at the last batch."""

    def __init__(self, machine: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._machine = machine
        self._ahead = _NOTHING
        self._is_told = False
        self.has_heard = False
        self.state: StoreState = FRESH

    def heard(self, now: datetime, state: StoreState = FRESH) -> None:
        """The store has just said that it is `now`, and what it knows of itself."""
        ahead = now - self._machine()
        self._ahead = _NOTHING if abs(ahead) < _AGREEING else ahead
        self.state, self.has_heard = state, True
        if self.is_wrong is not self._is_told:
            self._is_told = self.is_wrong
            _tell(self._ahead)

    def now(self) -> datetime:
        return self._machine() + self._ahead

    @property
    def ahead_seconds(self) -> float:
        """By how much the store is ahead of this machine; less than nothing if it is behind, 0 if they agree."""
        return self._ahead.total_seconds()

    @property
    def is_wrong(self) -> bool:
        """Whether one of the two clocks must be wrong."""
        return abs(self._ahead) > CLOCK_TOLERANCE


def _tell(ahead: timedelta) -> None:
    """Once when it begins, and once when it is over."""
    import logging  # Here: it takes as long to import as the rest of the kernel, and rarely has a say.

    log = logging.getLogger(__name__)
    if abs(ahead) <= CLOCK_TOLERANCE:
        log.warning("the store's clock and this machine's agree again")
        return
    seconds = ahead.total_seconds()
    way = "ahead of" if seconds > 0 else "behind"
    log.error(
        "the store's clock is %.0f s %s this machine's, so permits and deadlines go wrong; set both by one time "
        "server, or let the doctor repair it",
        abs(seconds),
        way,
    )
