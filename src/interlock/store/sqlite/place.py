"""Whether a SQLite file can be used: what is there, and if it cannot be used, why not.

Every way to open a file first asks `expect_store` whether it holds our store, nothing yet, or data of another
program. The check changes neither the file nor anything beside it, so a database of another program stays byte for
byte the same if a wrong path leads to it. `down` has one sentence per cause of failure, with the next step.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
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

    Raises `StoreMissing`, `NotAStore`, and `BUSY` if another process has the file to itself for that long.
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


# Not even one page finds room.
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
