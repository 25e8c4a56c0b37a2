"""The part of apsw that stores use, fully typed, and the meaning of its errors.

The protocols describe apsw's own objects and cost nothing at run time.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote

import apsw

from interlock.kernel.record import ColumnValue
from interlock.kernel.storage import StoreDown, WriteConflict

Bindings = Sequence[ColumnValue] | Mapping[str, ColumnValue]

OK = apsw.SQLITE_OK
BUSY = apsw.BusyError
FULL = apsw.FullError
FAILED = apsw.Error
NOT_A_DATABASE = apsw.NotADBError
READ_ONLY = (apsw.ReadOnlyError, apsw.PermissionsError)
CANNOT_OPEN = apsw.CantOpenError
FAILED_IO = apsw.IOError
DAMAGED = (apsw.CorruptError, apsw.NotADBError)
BROKEN = (CANNOT_OPEN, FAILED_IO, FULL, *DAMAGED, *READ_ONLY)
_TAKEN = (apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_ROWID)

# The last process to close the file locks it for a moment, and may be suspended just then.
OPENING_SECONDS = 30.0
_READ_BUSY_MS = 250
_WAL_BYTES_KEPT = 64 * 1024 * 1024
# 16 MiB. Pages that are changed again before the log is copied back are copied once, and the file is synced less
# often: among 100,000 jobs an approval costs 1.5 times what it costs among 100, and 1.6 to 1.9 times with 1,000 pages.
WAL_PAGES_MAX = 4000


class Cursor(Protocol):
    """Runs statements one after another and holds the rows of the last."""

    def execute(self, statements: str, bindings: Bindings = (), /) -> Cursor: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def close(self) -> None: ...

    @property
    def get(self) -> Any:
        """The one value of the first row, or None if there is no row."""
        ...


class Database(Protocol):
    """One connection to a database. It may be used by any thread, but by one at a time."""

    @property
    def filename(self) -> str: ...

    @property
    def in_transaction(self) -> bool: ...

    def cursor(self) -> Cursor: ...

    def execute(self, statements: str, bindings: Bindings = (), /) -> Cursor: ...

    def changes(self) -> int: ...

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...

    def set_wal_hook(self, committed: Callable[[Database, str, int], int], /) -> None:
        """Call this after each COMMIT, with the number of pages in the log, instead of what SQLite does then."""
        ...

    def config(self, option: int, value: int, /) -> int:
        """Set one of SQLite's own options for this connection."""
        ...

    def wal_checkpoint(self, *, mode: int) -> tuple[int, int]: ...

    def close(self) -> None: ...


def connect(path: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> Database:
    """A connection that plans each statement once; `:memory:` is a database of its own.

    Otherwise SQLite plans a statement that compares with a value again for every value, which takes several times
    as long as running it. Our statements each have one plan that is right for all values, and tests check the
    plans.
    """
    database = cast("Database", apsw.Connection(path, flags))
    database.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return database


def connect_durably(path: Path, opening_seconds: float = OPENING_SECONDS) -> Database:
    """A connection to a file that several processes may share: WAL, and every COMMIT synced.

    `BUSY` if another process has the file open exclusively for that long. The file is never made here (place.py).
    """
    database = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        _switch_to_wal(database, opening_seconds)
        database.execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -16000")
        database.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        database.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}")
        database.set_busy_timeout(_READ_BUSY_MS)
    except BaseException:
        database.close()
        raise
    return database


def look_at(path: Path, *, is_still: bool) -> Database:
    """A connection that changes nothing. One to a file that `is_still` locks nothing and leaves nothing beside it."""
    name = f"file:{quote(os.fsencode(path.absolute()))}?{'immutable=1' if is_still else 'mode=ro'}"
    return connect(name, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def copy_back(database: Database) -> None:
    """Copy the log into the file, as far as no other connection uses it; the rest is left for the next time."""
    with contextlib.suppress(FAILED):
        database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def pages_to_copy(database: Database) -> int:
    """How many pages of the log are not copied yet. Takes no lock, and 0.3 µs."""
    with contextlib.suppress(FAILED):
        pages, copied = database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        return pages - copied
    return 0


def schema_of(database: Database) -> int:
    """The number of the last migration that the file has had."""
    return int(database.execute("PRAGMA user_version").get)


def is_taken(error: BaseException) -> bool:
    """Whether the error says that a key exists, and not that a value is bad."""
    return isinstance(error, apsw.ConstraintError) and cast("Any", error).extendedresult in _TAKEN


def try_to_begin(database: Database) -> None:
    """Take the file's one writer lock if it is free, and say `BUSY` at once if not.

    SQLite's own busy handler would wait in longer and longer pauses of up to 100 ms.
    """
    database.set_busy_timeout(0)
    try:
        database.execute("BEGIN IMMEDIATE")
    finally:
        database.set_busy_timeout(_READ_BUSY_MS)


def roll_back(database: Database) -> None:
    """End whatever transaction is open."""
    if database.in_transaction:
        database.execute("ROLLBACK")


@contextlib.contextmanager
def all_or_nothing(writer: Database) -> Generator[None]:
    """Roll the transaction back on any error, and name the errors that the kernel knows."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(FAILED):
            roll_back(writer)
        if is_taken(error):
            raise WriteConflict(str(error)) from error
        if isinstance(error, BROKEN):
            raise _down(error, writer.filename) from error
        raise


@contextlib.contextmanager
def reading(path: Path | str) -> Generator[None]:
    """Name what can go wrong with a plain read."""
    try:
        yield
    except (*BROKEN, BUSY) as error:
        raise _down(error, path) from error


def _down(error: BaseException, path: Path | str) -> StoreDown:
    from interlock.store.sqlite.place import down  # here, because only errors need it

    return down(error, path)


def _switch_to_wal(database: Database, opening_seconds: float) -> None:
    # SQLite does not wait for this lock when two processes make the file WAL at once; so wait here.
    deadline = time.monotonic() + opening_seconds
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except BUSY:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))
