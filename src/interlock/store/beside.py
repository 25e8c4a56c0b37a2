"""A small file beside the SQLite file, mapped by every process that shares it, in which they leave each other words.

Nothing in it is trusted and nothing is kept there: it can be removed or spoilt at any moment, but not cut short, and
whoever reads it asks the database before it believes anything. What must not happen at the same time is guarded by
locks on single bytes of the file, which the system takes back from whoever ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import mmap
import os
import stat
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.store.futex import Futex

BYTES = 4096 + 32 * 2048
IS_LINUX = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")

File = tuple[int, int]

# What fcntl takes: kind, from where, first byte, how many, nobody.
_LOCK = struct.Struct("@hhqqi0q")


class Beside:
    """The file as one process sees it, where there is a futex. Of one thread."""

    def __init__(self, database: Path, file: File | None = None) -> None:
        """`file` is which one the process has open, if another may be at its path by now."""
        self._database = database
        self._path = Path(f"{database}-turn")
        self._file = -1
        self._map: mmap.mmap | None = None
        self._is_closed = False
        self._futexes: dict[int, Futex] = {}
        # Whoever has another file open, which was at the path before or after, shares this one all the same.
        device, number = file or file_at(database) or (0, 0)
        self.mark = (device ^ number) & 0xFFFFFFFF

    @property
    def mapped(self) -> mmap.mmap | None:
        """What is in the file, if this process has looked for it and found it."""
        return self._map

    def open(self, *, make: bool) -> mmap.mmap | None:
        """What is in the file; None where there is none, or nobody could sleep on it."""
        if self._map is None and IS_LINUX and not self._is_closed:
            with contextlib.suppress(OSError):
                if make and not self._path.exists():
                    _make(self._path)
                self._file, self._map = _opened(self._path, self._database)
        return self._map

    def futex(self, offset: int) -> Futex:
        """The word at an offset, to sleep on and to wake at. The file must be open."""
        found = self._futexes.get(offset)
        if found is None:
            from interlock.store.futex import Futex  # Here: most processes never meet another one.

            if self._map is None:
                raise RuntimeError("the file beside the database is not open")
            found = self._futexes[offset] = Futex(self._map, offset)
        return found

    def try_lock(self, byte: int) -> bool:
        """Have one byte to oneself until `unlock`, or until this process ends; False if somebody else has it."""
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, byte))
        except OSError:
            return False
        return True

    def is_locked(self, byte: int) -> bool:
        """Whether somebody else has that byte."""
        try:
            found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, byte))
        except OSError:
            return False
        return _LOCK.unpack(found)[0] != fcntl.F_UNLCK

    def unlock(self, byte: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _lock(fcntl.F_UNLCK, byte))

    def close(self) -> None:
        """For good."""
        self._is_closed = True
        self._futexes.clear()
        if self._map is not None:
            # One who was interrupted as it slept has the word in its traceback; the memory is let go of with that.
            with contextlib.suppress(BufferError):
                self._map.close()
            os.close(self._file)
            self._map = None


@functools.cache
def _lock(kind: int, byte: int) -> bytes:
    """What fcntl is asked for: it is one of few, for each of the commands that others ask for."""
    return _LOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


def file_at(path: str | Path) -> File | None:
    """Which file is there, whatever its name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - it is asked before every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make(path: Path) -> None:
    """Make the file; whoever opens it shares it."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _opened(path: Path, database: Path) -> tuple[int, mmap.mmap]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            _share(file, database.stat())
        # A file with a hole would end the process that looks into it (SIGBUS) once the disk is full.
        os.posix_fallocate(file, 0, BYTES)
        return file, mmap.mmap(file, BYTES)
    except BaseException:
        os.close(file)
        raise


def _share(file: int, database: os.stat_result) -> None:
    """Share the file with whoever may use the database, as it is shared now, and with nobody else.

    What is asked for there is decided, whoever asks. Raises `OSError` if it is another's, who shares it with more.
    """
    owner = database.st_uid if os.geteuid() == 0 else -1
    with contextlib.suppress(PermissionError):
        os.fchown(file, owner, database.st_gid)
    found, mode = os.fstat(file), stat.S_IMODE(database.st_mode)
    if found.st_gid != database.st_gid:
        mode &= ~stat.S_IRWXG
    if stat.S_IMODE(found.st_mode) != mode:
        os.fchmod(file, mode)
    if found.st_uid not in (0, database.st_uid) and not mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("the file beside the database belongs to somebody who may not use that")
