"""The SQLite file's one write lock, which processes that share the file take in turns.

SQLite lets a process try to take the lock, but not sleep until it is free. So a process that finds it taken tries
again after a short pause of random length, until its time is up. SQLite's own busy handler does the same with pauses of
up to 100 ms, and would keep the event loop waiting for them.

The process that has just written would find the lock free before anybody who pauses wakes up. So it pauses first, for
as long as there are others that write.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from interlock.kernel.storage import LockTimeout, StoreDown
from interlock.store.sqlite.driver import BROKEN, BUSY, Database, reading, roll_back, try_to_begin

FileIdentity = tuple[int, int]

# A pause is about as long as the lock is usually held, so that whoever waits tries a few times in a turn.
_JITTER = (0.5, 1.5)
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.0005, 0.005
# Somebody else is taken to be writing for so long after a commit of theirs was seen.
_COMPANY_SECONDS = 0.5


class WriteLock:
    """One connection's way to the lock. It has it from the end of `acquire` to COMMIT or ROLLBACK."""

    def __init__(self, database: Database, path: Path, file: FileIdentity | None = None) -> None:
        """`file` is what was at the path before it was opened: afterwards another one may be."""
        self._database = database
        self._path = str(path)
        self._file = file or file_at(path)
        self._seen_version: int | None = None
        self._company_until = 0.0
        self._began_at = 0.0
        self._held_seconds = 0.0

    async def acquire(self, within_seconds: float) -> None:
        """Begin a transaction that may write.

        Raises `LockTimeout` when the time is up, and `StoreDown` if the file is bad or is not there any more.
        """
        deadline = time.monotonic() + within_seconds
        if self._has_company():
            await asyncio.sleep(self._pause_seconds())
        while not self._has_begun():
            if time.monotonic() >= deadline:
                raise LockTimeout("another process holds the database's write lock")
            await asyncio.sleep(self._pause_seconds())

    def released(self) -> None:
        """The transaction is over."""
        self._held_seconds = time.monotonic() - self._began_at

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
            raise StoreDown(f"the database file does not answer: {error}") from error
        try:
            self.expect_same_file()
        except StoreDown:
            roll_back(self._database)
            raise
        self._began_at = time.monotonic()
        return True

    def _pause_seconds(self) -> float:
        usual = min(_PAUSE_SECONDS_MAX, max(_PAUSE_SECONDS_MIN, self._held_seconds))
        return usual * random.uniform(*_JITTER)

    def _has_company(self) -> bool:
        """Whether another process wrote since this one last did, or a moment ago."""
        now = time.monotonic()
        with reading():
            version = self._database.execute("PRAGMA data_version").get
        if self._seen_version not in (None, version):
            self._company_until = now + _COMPANY_SECONDS
        self._seen_version = version
        return now < self._company_until


def file_at(path: str | Path) -> FileIdentity | None:
    """Which file is there, whatever its name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - it is asked before every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
