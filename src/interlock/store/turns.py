"""A word from whoever is done with the SQLite file to whoever waits for it, so that nobody has to keep looking.

SQLite lets a process ask for the one writer lock, but not sleep until it is free. So processes that share a file
map a small one beside it, `…-turn`, and sleep on a counter in it: who has committed counts on and wakes the one
that has slept longest. It is a hint and nothing else. No lock is kept there and nobody owns it, so nothing of it
can go stale: whoever is woken asks SQLite like anybody else, and whoever is not, because the one before it was
stopped or killed, wakes by itself a little later.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from interlock.store.futex import Futex

# The file: a counter that is slept on, and the second at which somebody last lay down.
_COUNTER, _SLEPT_AT = 0, 4
_BYTES = 8
_SECOND = struct.Struct("=I")
_ALERT_SECONDS = 5
# Whoever made the file a moment ago wakes by itself after as long.
_ABSENT_SECONDS = 0.02
_IS_LINUX = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")


class Turns:
    """The hint as one process sees it, where there is a futex. Of one thread."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = Path(f"{database}-turn")
        self._map: mmap.mmap | None = None
        self._futex: Futex | None = None
        self._look_at = 0.0

    def seen(self) -> int | None:
        """What to hand to `wait`, learned before the lock is asked for; None where there is no such hint."""
        if not _IS_LINUX or self._mapped(make=True) is None:
            return None
        return self._opened().value

    def wait(self, seen: int | None, seconds: float) -> None:
        """Sleep until somebody was done since `seen`, or for that long."""
        if seen is None or self._map is None:
            time.sleep(seconds)
        else:
            _SECOND.pack_into(self._map, _SLEPT_AT, int(time.monotonic()))
            self._opened().wait(seen, seconds)

    def pass_on(self) -> bool | None:
        """Wake whoever has slept longest; whether anybody did, and None where nobody can tell."""
        if not _IS_LINUX:
            return None
        now = time.monotonic()
        if self._map is None and now < self._look_at:
            return False
        shared = self._mapped(make=False)
        if shared is None:
            self._look_at = now + _ABSENT_SECONDS
            return False
        # To look whether somebody lay down of late costs less than to learn how to wake.
        if now - _SECOND.unpack_from(shared, _SLEPT_AT)[0] > _ALERT_SECONDS:
            return False
        return self._opened().wake_one()

    def close(self) -> None:
        self._futex = None
        if self._map is not None:
            self._map.close()
            self._map = None

    def _mapped(self, *, make: bool) -> mmap.mmap | None:
        if self._map is None:
            with contextlib.suppress(OSError):
                if make and not self._path.exists():
                    _make(self._path, self._database)
                self._map = _map(self._path)
        return self._map

    def _opened(self) -> Futex:
        if self._futex is None:
            from interlock.store.futex import Futex  # Here: most processes never meet another one.

            self._futex = Futex(cast("mmap.mmap", self._map), _COUNTER)
        return self._futex


def _make(path: Path, database: Path) -> None:
    """Make the file, for whoever may use the database."""
    with contextlib.suppress(FileExistsError):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file, stat.S_IMODE(database.stat().st_mode))
        finally:
            os.close(file)


def _map(path: Path) -> mmap.mmap:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        # A file with a hole would end the process that looks into it (SIGBUS) once the disk is full.
        os.posix_fallocate(file, 0, _BYTES)
        return mmap.mmap(file, _BYTES)
    finally:
        os.close(file)
