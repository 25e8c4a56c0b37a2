"""Why a SQLite file cannot be used: one sentence per cause, with the next step."""

from __future__ import annotations

import os
from pathlib import Path

from interlock.kernel.storage import StoreDown, StoreHeld, StoreUnwritable
from interlock.store.sqlite.driver import BUSY, CANNOT_OPEN, DAMAGED, FAILED_IO, FULL, READ_ONLY
from interlock.store.sqlite.place import free_bytes

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
