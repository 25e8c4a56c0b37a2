"""The wall clock as an argument, so that tests can pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from interlock.kernel.store_time import CLOCK_TOLERANCE

Clock = Callable[[], datetime]
Ticks = Callable[[], float]

TOLERANCE = CLOCK_TOLERANCE

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = timedelta()
# Time goes on while a clock is behind. A few seconds are caught up with soon; what is further ahead may take days, in
# which leases must not last twice as long.
_SPEED_BEHIND, _SPEED_FAR_BEHIND = 0.5, 0.9
# A leap that no time has passed for is believed once it has lasted.
_LEAP = timedelta(seconds=10)
_LASTING_SECONDS = 10.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def seconds_since_boot() -> float:
    """What no one sets. A machine that sleeps counts it as well, where the system can."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """The machine's time without leaps ahead that do not last.

    One reading that is years ahead would be in the store for years, as time there never goes back. So where the clock
    leaps and no time has passed for it, this one goes on by the time that has passed until the leap has lasted for ten
    seconds: a clock that was set right, or a machine that was paused, is right again after that. A process that begins
    during a leap cannot know it for one.
    """

    def __init__(self, wall: Clock = utc_now, ticks: Ticks = seconds_since_boot) -> None:
        self._wall = wall
        self._ticks = ticks
        self._told, self._ticked = wall(), ticks()
        self._leap: timedelta | None = None
        self._leapt_at = 0.0

    def __call__(self) -> datetime:
        wall, tick = self._wall(), self._ticks()
        expected = self._told + timedelta(seconds=tick - self._ticked)
        if not self._is_believed(wall - expected, tick):
            return expected
        self._told, self._ticked = wall, tick
        return wall

    def _is_believed(self, leap: timedelta, tick: float) -> bool:
        if leap <= _LEAP:
            self._leap = None
            return True
        if self._leap is None or abs(leap - self._leap) > _LEAP:
            self._leap, self._leapt_at = leap, tick
        if tick - self._leapt_at < _LASTING_SECONDS:
            return False
        self._leap = None
        return True


class OnwardClock:
    """A clock's time that never goes back, and never stands still.

    A clock that is set back, by a second or from a year ahead, must not keep leases, slots and requests from ending.
    So time then goes on, a little slower, until the clock has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = _BEGINNING
        self._ticked = time.monotonic()
        self.ahead = _NOTHING

    def now(self, *, not_before: datetime) -> datetime:
        """The time, at least as late as it was and as `not_before`. `ahead` is by how much it is ahead of the clock."""
        tick = time.monotonic()
        passed, self._ticked = tick - self._ticked, tick
        wall, least = self._clock(), max(self._last, not_before)
        now = wall
        if wall < least:
            speed = _SPEED_BEHIND if least - wall <= TOLERANCE else _SPEED_FAR_BEHIND
            now = max(least, self._last + timedelta(seconds=passed * speed))
        self.ahead = now - wall
        self._last = now
        return now

    def forget(self) -> None:
        """The store's clock was set back: begin again with its time."""
        self._last = _BEGINNING
