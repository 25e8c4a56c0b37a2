"""A word from whoever is done with the SQLite file to whoever waits for it, so that nobody has to keep looking.

SQLite lets a process ask for the one writer lock, but not sleep until it is free. So processes that share a file
sleep on a counter beside it (beside.py): who has committed counts on and wakes the one that has slept longest. It is
a hint and nothing else. No lock is kept there and nobody owns it, so nothing of it can go stale: whoever is woken asks
SQLite like anybody else, and whoever is not, because the one before it was stopped or killed, wakes by itself a little
later.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from interlock.store import beside

if TYPE_CHECKING:
    import mmap

# A counter that is slept on, and the second at which somebody last lay down.
_COUNTER, _SLEPT_AT = 0, 4
_SECOND = struct.Struct("=I")
_ALERT_SECONDS = 5
# Whoever made the file a moment ago wakes by itself after as long.
_ABSENT_SECONDS = 0.02


class Turns:
    """The hint as one process sees it, where there is a futex. Of one thread."""

    def __init__(self, shared: beside.Beside) -> None:
        self._shared = shared
        self._look_at = 0.0

    def seen(self) -> int | None:
        """What to hand to `wait`, learned before the lock is asked for; None where there is no such hint."""
        if self._shared.open(make=True) is None:
            return None
        return self._shared.futex(_COUNTER).value

    def wait(self, seen: int | None, seconds: float) -> None:
        """Sleep until somebody was done since `seen`, or for that long."""
        if seen is None or self._shared.mapped is None:
            time.sleep(seconds)
        else:
            self.lie_down()
            self._shared.futex(_COUNTER).wait(seen, seconds)

    def lie_down(self) -> None:
        """Say that somebody waits for a word. The file must be open."""
        if self._shared.mapped is not None:
            _SECOND.pack_into(self._shared.mapped, _SLEPT_AT, int(time.monotonic()))

    def somebody_waits(self) -> mmap.mmap | None:
        """The file, if somebody lay down of late: to look costs less than to learn how to wake."""
        now = time.monotonic()
        if self._shared.mapped is None and now < self._look_at:
            return None
        shared = self._shared.open(make=False)
        if shared is None:
            self._look_at = now + _ABSENT_SECONDS
            return None
        return shared if now - _SECOND.unpack_from(shared, _SLEPT_AT)[0] <= _ALERT_SECONDS else None

    def pass_on(self) -> bool | None:
        """Wake whoever has slept longest; whether anybody did, and None where nobody can tell."""
        if not beside.IS_LINUX:
            return None
        if self.somebody_waits() is None:
            return False
        return self._shared.futex(_COUNTER).wake_one()
