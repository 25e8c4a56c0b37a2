"""The SQLite file's one write lock, which the processes that share the file take in turns.

SQLite lets a process try to take the lock, but not sleep until it is free. So a process that finds it taken tries
again after a short random pause, until its time is up. SQLite's own busy handler does the same with pauses of up to
100 ms, and would block the event loop during them.

There is no queue: chance decides which process finds the lock free. A process that has waited for a while tries more
often, so that none loses for long (decision 0042 has the figures).
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from interlock.kernel.storage import LockTimeout, StoreDown
from interlock.store.sqlite.causes import down
from interlock.store.sqlite.driver import BROKEN, BUSY, Database, roll_back, try_to_begin

FileIdentity = tuple[int, int]

# Short pauses take the processor from the process that has the lock, long ones leave the lock unused. So they are
# short only for a process that has waited for a while.
_PAUSE_SECONDS = (0.001, 0.008)
_PAUSE_SECONDS_LATER = (0.0005, 0.002)
_LATER_SECONDS = 0.02


class WriteLock:
    """One connection's way to the lock. It has it from the end of `acquire` to COMMIT or ROLLBACK."""

    def __init__(self, database: Database, path: Path, file: FileIdentity | None = None) -> None:
        """`file` is what was at the path before it was opened: afterwards another one may be."""
        self._database = database
        self._path = str(path)
        self._file = file or file_at(path)

    async def acquire(self, within_seconds: float) -> None:
        """Begin a transaction that may write.

        Raises `LockTimeout` when the time is up, and `StoreDown` if the file is bad or is not there any more.
        """
        began = time.monotonic()
        while not self._has_begun():
            waited = time.monotonic() - began
            if waited >= within_seconds:
                raise LockTimeout("another process holds the database's write lock")
            pause = _PAUSE_SECONDS if waited < _LATER_SECONDS else _PAUSE_SECONDS_LATER
            await asyncio.sleep(random.uniform(*pause))

    def expect_same_file(self) -> None:
        """Raise `StoreDown` if the file at the path is not the one that was opened: what is written is lost."""
        if file_at(self._path) != self._file:
            raise StoreDown(
                "the database file was removed or replaced while in use; start this process again"
            )

    def _has_begun(self) -> bool:
        try:
            roll_back(self._database)
            try_to_begin(self._database)
        except BUSY:
            return False
        except BROKEN as error:
            raise down(error, self._path) from error
        try:
            self.expect_same_file()
        except StoreDown:
            roll_back(self._database)
            raise
        return True


def file_at(path: str | Path) -> FileIdentity | None:
    """Which file is there, whatever its name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - it is asked before every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
