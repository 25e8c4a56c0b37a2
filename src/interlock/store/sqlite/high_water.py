"""The high-water mark: a note beside the SQLite file with its newest batch. A file behind its note was restored.

The note holds the number of the newest batch. It is written after the batch's COMMIT and before any caller gets an
answer, so no fence was handed out by a batch that the note does not know. The note also holds the time when it was
written. If that differs from the file system's time, the note was copied along with the database.

A note that is missing, damaged or older than its own file proves nothing; the database says whether there ever was
one. Fences may then be raised once too often, which is harmless. A whole disk or machine that was set back cannot be
detected: use `interlock doctor --after-restore`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
from pathlib import Path

_SUFFIX = "-mark"
_NOTE = struct.Struct("<8sqq")
_MAGIC = b"ilkmark1"
# Between reading the clock and writing the note; the system's own clock for files moves in steps of some milliseconds.
_WRITING_NS_MAX = 50_000_000
_ATTEMPTS_MAX = 3


class HighWater:
    """The note beside one database file. It is opened for every use: nothing has to be closed, also by a fork."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = f"{database}{_SUFFIX}"

    def doubt(self, newest: int | None, *, was_noted: bool) -> str | None:
        """Why a store whose newest batch has this number may not be where it was; None if nothing speaks for it."""
        try:
            number = self._read()
        except OSError:
            number = None
        if number is None:
            return None if not was_noted else "there is no note of how far this store had come"
        if number > (newest or 0):
            return f"the database is {number - (newest or 0)} batches behind what it was"
        return None

    def reached(self, number: int, *, is_first: bool) -> None:
        """The batch of this number is committed. A note that cannot be written vouches for nothing later.

        Another process may have noted a later one already. Only the first note may go back, after a restore.
        """
        with contextlib.suppress(OSError):
            if not is_first and (self._read() or 0) > number:
                return
        with contextlib.suppress(OSError):
            file = self._opened(is_first=is_first)
            try:
                for _ in range(_ATTEMPTS_MAX):
                    written = time.time_ns()
                    os.pwrite(file, _NOTE.pack(_MAGIC, number, written), 0)
                    if _agrees(file, written):
                        return
            finally:
                os.close(file)

    def _read(self) -> int | None:
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            body = os.pread(file, _NOTE.size, 0)
            if len(body) < _NOTE.size:
                return None
            magic, number, written = _NOTE.unpack(body)
            return number if magic == _MAGIC and _agrees(file, written) else None
        finally:
            os.close(file)

    def _opened(self, *, is_first: bool) -> int:
        """The open file, with the owner and mode of the database, which may have changed since it was made."""
        file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        if is_first:
            database = self._database.stat()
            with contextlib.suppress(OSError):
                os.fchown(file, database.st_uid if os.geteuid() == 0 else -1, database.st_gid)
                os.fchmod(file, stat.S_IMODE(database.st_mode))
        return file


def _agrees(file: int, written_ns: int) -> bool:
    """Whether the file was last changed when its note says that it was written."""
    return abs(os.fstat(file).st_ctime_ns - written_ns) <= _WRITING_NS_MAX
