"""Whether a SQLite file can be used, why not, and whether it was restored from an older copy.

Every way to open a file first asks `expect_store` whether it holds our store, nothing yet, or data of another
program. The check changes neither the file nor anything beside it, so a database of another program stays byte for
byte the same if a wrong path leads to it. `down` has one sentence per cause of failure, with the next step.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from interlock.kernel.storage import (
    OUR_TABLES,
    NotAStore,
    StoreDown,
    StoreHeld,
    StoreMissing,
    StoreUnwritable,
    refuse_foreign,
)
from interlock.store.sqlite.driver import (
    BUSY,
    CANNOT_OPEN,
    DAMAGED,
    FAILED_IO,
    FULL,
    NOT_A_DATABASE,
    READ_ONLY,
    Database,
    look_at,
)

_MAGIC = b"SQLite format 3\0"
_OURS = f"""
SELECT count(*), coalesce(sum(type = 'table' AND name IN ({", ".join("?" * len(OUR_TABLES))})), 0)
FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""


def expect_store(path: Path, *, makes: bool, patience_seconds: float) -> bool:
    """Whether the file holds a store. If it is empty, that is refused unless the caller `makes` one.

    Raises `StoreMissing`, `NotAStore`, and `BUSY` if another process has the file open exclusively for that long.
    """
    is_there = holds_store(path, patience_seconds=patience_seconds)
    if not is_there and not makes:
        raise StoreMissing(f"there is no store at {path}; {_way_to_one(path)}")
    return is_there


def holds_store(path: Path, *, patience_seconds: float) -> bool:
    """Whether the file holds a store of ours; False if there is no file, or nothing in it."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise NotAStore(f"{path} is not a file; name the file of a store, or one to make")
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise NotAStore(
                f"{path} is a link to {path.readlink()}, which is not there; name a file"
            ) from None
        return False
    if not head:
        return False
    if head != _MAGIC:
        raise NotAStore(f"{path} is not a database; it was left as it is. Name another file")
    return _holds_ours(path, patience_seconds)


def free_bytes(path: Path) -> int | None:
    """How much room this user has on the file's volume; None if the system does not say."""
    try:
        volume = os.statvfs(path.parent)
    except OSError:
        return None
    return volume.f_bavail * volume.f_frsize


def _holds_ours(path: Path, patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return _ours_in(path)
        except BUSY:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))
        except NOT_A_DATABASE:
            raise NotAStore(f"{path} is not a database that can be read; it was left as it is") from None


def _ours_in(path: Path) -> bool:
    # A process that has a database with a log open has both of these files beside it. If none has it open, the file is
    # read as it is: opening it in the usual way would leave the two files behind.
    if not all(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-shm")):
        found = _counted(path, is_still=True)
        if found is not None:
            return found
        if not Path(f"{path}-wal").exists():
            return False
    return bool(_counted(path, is_still=False))


def _counted(path: Path, *, is_still: bool) -> bool | None:
    """Whether our tables are there; None if nothing is. Raises `NotAStore` if only others' are."""
    database = look_at(path, is_still=is_still)
    try:
        there, ours = database.execute(_OURS, OUR_TABLES).fetchall()[0]
        if ours == len(OUR_TABLES):
            return True
        if there or _is_marked(database):
            raise refuse_foreign(path)
        return None
    finally:
        database.close()


def _is_marked(database: Database) -> bool:
    """Whether another program has numbered an empty database as its own."""
    marks: Sequence[int] = [
        database.execute(f"PRAGMA {name}").get for name in ("user_version", "application_id")
    ]
    return any(marks)


def _way_to_one(path: Path) -> str:
    if path.name == "interlock.db" and path.parent.name == ".interlock":
        return f"make one with `interlock init` in {path.parent.parent}, or name one with --store"
    return f"check the path, or make one with `interlock init --store sqlite:///{path}`"


# The default place, in the working directory.
_OWN_FOLDER = ".interlock"


def make_private(path: Path) -> None:
    """Make the file, and the folders above it, if they are not there."""
    if path.exists():
        return
    if not path.parent.exists():
        _make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _make_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if folder.name == _OWN_FOLDER:
            (folder / ".gitignore").write_text("*\n")


# There is no room for even one page.
_ROOM_BYTES_MIN = 4096


def down(error: BaseException, path: Path | str) -> StoreDown:
    """What to raise for an error of the driver or the system."""
    if isinstance(error, FULL) or (isinstance(error, (FAILED_IO, CANNOT_OPEN, OSError)) and _is_full(path)):
        return StoreUnwritable(
            f"the disk is full: there is no room to write to {path}; free some space there, and it goes on by itself"
        )
    if isinstance(error, READ_ONLY):
        return StoreUnwritable(_read_only(path))
    if isinstance(error, BUSY):
        return StoreHeld(
            f"another process has the database file {path} to itself; let it finish, and try again"
        )
    return StoreDown(_otherwise(error, path))


def _otherwise(error: BaseException, path: Path | str) -> str:
    if isinstance(error, DAMAGED):
        return f"the database file {path} is damaged ({error}); put it back from a copy, and keep this one to look into"
    if isinstance(error, (CANNOT_OPEN, PermissionError)) and _is_closed_to_us(path):
        return f"cannot open the database file {path}: {_user()} may not read it or its folder; give them the right to"
    if isinstance(error, (CANNOT_OPEN, OSError)):
        return f"cannot open the database file {path}: {error}; check the path, and that its folder is there"
    if isinstance(error, FAILED_IO):
        return f"the disk under {path} fails ({error}); look into the system's log for why"
    return f"the database file {path} does not answer: {error}; `interlock doctor` looks for more"


def _read_only(path: Path | str) -> str:
    return (
        f"{path} is read-only for {_user()}: the file, its folder or the volume it is on takes no writes; "
        "give them the right to write, or name another store"
    )


def _is_full(path: Path | str) -> bool:
    room = free_bytes(Path(path))
    return room is not None and room < _ROOM_BYTES_MIN


def _is_closed_to_us(path: Path | str) -> bool:
    return not os.access(path if os.path.lexists(path) else Path(path).parent, os.R_OK)


def _user() -> str:
    return f"user {os.geteuid()}"


_SUFFIX = "-mark"
_NOTE = struct.Struct("<8sqq")
_NOTE_MAGIC = b"ilkmark1"
# Between reading the clock and writing the note; the system's own clock for files moves in steps of some milliseconds.
_WRITING_NS_MAX = 50_000_000
_ATTEMPTS_MAX = 3


class HighWater:
    """A note beside the database file with the number of its newest batch. A file behind its note was restored.

    The note is written after the batch's COMMIT and before any caller gets an answer, so no fence was handed out by a
    batch that the note does not know. It also holds the time when it was written. If that differs from the file
    system's time, the note was copied along with the database.

    A note that is missing, damaged or older than its own file proves nothing; the database says whether there ever was
    one. Fences may then be raised once too often, which is harmless. A whole disk or machine that was set back cannot
    be detected: use `interlock doctor --after-restore`.

    The note is opened for every use, so a fork has nothing to close.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = f"{database}{_SUFFIX}"

    def doubt(self, newest: int | None, *, was_noted: bool) -> str | None:
        """Why a store whose newest batch has this number may be an older copy; None if there is no sign of it."""
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
        """Note that the batch of this number is committed.

        A note that cannot be written proves nothing about later batches. Another process may have noted a later
        batch already. Only the first note may go back, after a restore.
        """
        with contextlib.suppress(OSError):
            if not is_first and (self._read() or 0) > number:
                return
        with contextlib.suppress(OSError):
            file = self._opened(is_first=is_first)
            try:
                for _ in range(_ATTEMPTS_MAX):
                    written = time.time_ns()
                    os.pwrite(file, _NOTE.pack(_NOTE_MAGIC, number, written), 0)
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
            return number if magic == _NOTE_MAGIC and _agrees(file, written) else None
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
