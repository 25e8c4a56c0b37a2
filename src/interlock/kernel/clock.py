"""Clocks: this machine's, without jumps; one that never goes back; and the store's, as of the last batch.

Decisions use the store's clock, and pages must not contradict them. On PostgreSQL, the server that shows a request
may have a wrong clock; on SQLite, one wrong reading of the machine's clock stays in the file. So every batch compares
the store's clock with this machine's (`StoreTime`), and reads that do not ask the store go by that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from interlock.kernel.store_state import FRESH, StoreState

Clock = Callable[[], datetime]
Ticks = Callable[[], float]

# How far the store's clock may differ from the machine's before that is reported: verifiers of permits allow no more.
CLOCK_TOLERANCE = timedelta(seconds=5)

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = timedelta()
# Reading the store's clock takes a moment, so two clocks that agree may differ by this much.
_AGREEING = timedelta(seconds=1)
# A store whose time is ahead of the clock runs slower until the clock has caught up. A few seconds are caught up soon;
# more may take days, in which leases must not last twice as long.
_SPEED_BEHIND, _SPEED_FAR_BEHIND = 0.5, 0.9
# A jump of the clock is believed once it has lasted this long.
_LEAP = timedelta(seconds=10)
_LASTING_SECONDS = 10.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def seconds_since_boot() -> float:
    """Seconds since boot, which setting the clock does not change; with the time asleep, where the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """The machine's time without jumps forward that do not last.

    One reading that is years ahead would stay in the store for years, because time there never goes back. So when the
    clock jumps ahead of the time that has passed, this one ignores the jump until it has lasted for ten seconds. A
    clock that was corrected, or a machine that was paused, is right again after that. A process that starts during a
    jump cannot notice it.
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
    """A clock's time that never goes back and never stands still.

    Leases, slots and requests must end even if the clock is set back, by a second or by a year. So time then goes on,
    a little slower, until the clock has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = _BEGINNING
        self._ticked = time.monotonic()
        self.ahead = timedelta()

    def now(self, *, not_before: datetime) -> datetime:
        """The time, at least as late as it was and as `not_before`. `ahead` is by how much it is ahead of the clock."""
        tick = time.monotonic()
        passed, self._ticked = tick - self._ticked, tick
        wall, least = self._clock(), max(self._last, not_before)
        now = wall
        if wall < least:
            speed = _SPEED_BEHIND if least - wall <= CLOCK_TOLERANCE else _SPEED_FAR_BEHIND
            now = max(least, self._last + timedelta(seconds=passed * speed))
        self.ahead = now - wall
        self._last = now
        return now

    def forget(self) -> None:
        """The store's clock was repaired: start again from its time."""
        self._last = _BEGINNING


class StoreTime:
    """This machine's time, corrected by its difference from the store's clock at the last batch."""

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
    """Log once when the clocks differ, and once when they agree again."""
    import logging  # Imported here: it takes as long as the rest of the kernel, and is rarely needed.

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
