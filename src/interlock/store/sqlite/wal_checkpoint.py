"""Copies SQLite's log back into its file, in parallel with the commits that write the log (decision 0034).

By default SQLite does this inside one COMMIT every so many pages, and every commit behind it waits.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from interlock.store.sqlite.driver import (
    FAILED,
    OK,
    WAL_PAGES_MAX,
    Database,
    connect_durably,
    copy_back,
    pages_to_copy,
)
from interlock.store.sqlite.threads import WorkerThreads

# From so many pages on, what is new is copied while others commit. Only a log that nobody writes to for a moment can be
# copied whole, and begun again: in one that has become too long a COMMIT copies what is left.
_PAGES_MIN = WAL_PAGES_MAX // 4
# A copy syncs both files, however little there is to copy, and takes the processor from whoever commits meanwhile.
_PAGES_STEP = 500


class WalCheckpoint:
    """A thread with a connection of its own, both made when first needed. Only the log's length depends on it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = WorkerThreads("sqlite-checkpoint")
        self._database: Database | None = None
        self._is_copying = False
        self._asked_at = 0

    def watch(self, writer: Database) -> None:
        """Look after the log that this connection writes."""
        writer.set_wal_hook(self._committed)

    def close(self) -> None:
        """Stop, once what is being copied is copied."""
        self._thread.stop()
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _committed(self, writer: Database, _: str, pages: int, /) -> int:
        """Called by each COMMIT, which is done by then: whatever goes wrong here must not look like its failure."""
        if pages < self._asked_at:
            self._asked_at = 0  # The log has begun again.
        if pages >= WAL_PAGES_MAX and not self._is_copying:
            copy_back(writer)
        elif pages >= max(_PAGES_MIN, self._asked_at + _PAGES_STEP) and not self._is_copying:
            self._asked_at = pages
            # Each of the processes that share a log sees it grow; one that copies does it for all.
            if pages_to_copy(writer) >= _PAGES_STEP:
                self._ask_for_copy()
        return OK

    def _ask_for_copy(self) -> None:
        self._is_copying = True
        try:
            self._thread.submit(self._copy)
        except RuntimeError:
            self._is_copying = False  # There is no room for another thread: a COMMIT copies later.

    def _copy(self) -> None:
        try:
            with contextlib.suppress(FAILED):
                if self._database is None:
                    self._database = connect_durably(self._path)
                copy_back(self._database)
        finally:
            self._is_copying = False
