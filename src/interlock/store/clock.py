"""The wall clock, as an argument: stores take it so that tests can bring their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SPEED_BEHIND = 0.5


def utc_now() -> datetime:
    return datetime.now(UTC)


class OnwardClock:
    """A clock's time that never goes back, and never stands still.

    Whoever sets a clock back, by a second or from a year ahead, must not keep leases, slots and requests from ending.
    So time then goes on at half its speed, until the clock has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = _BEGINNING
        self._ticked = time.monotonic()

    def now(self, *, not_before: datetime) -> datetime:
        """The time, at least as late as it was and as `not_before`."""
        tick = time.monotonic()
        passed, self._ticked = tick - self._ticked, tick
        wall, least = self._clock(), max(self._last, not_before)
        if wall < least:
            wall = max(least, self._last + timedelta(seconds=passed * _SPEED_BEHIND))
        self._last = wall
        return wall
