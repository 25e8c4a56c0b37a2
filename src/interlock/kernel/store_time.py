"""What time it is in the store, for what is read without asking the store for it.

Decisions go by the store's clock, and what people are shown must not contradict them: on PostgreSQL the server that
shows a request may have a clock of its own that is wrong. So every batch compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_NOTHING = timedelta()
# To read the store's clock takes a while, so clocks that agree differ by as long.
_AGREEING = timedelta(seconds=1)


class StoreTime:
    """This machine's time, put right by how far the store's clock was from it at the last batch."""

    def __init__(self, machine: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._machine = machine
        self._ahead = _NOTHING

    def heard(self, now: datetime) -> None:
        """The store has just said that it is `now`."""
        ahead = now - self._machine()
        self._ahead = _NOTHING if abs(ahead) < _AGREEING else ahead

    def now(self) -> datetime:
        return self._machine() + self._ahead
