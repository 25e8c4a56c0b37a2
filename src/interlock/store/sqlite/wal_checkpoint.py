"""Copying SQLite's log back into its file, beside the commits that write the log (decision 0034).

SQLite's own way is that every so many pages one COMMIT does it, and everybody behind that one waits.
"""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue

from interlock.store.sqlite.driver import (
    OK,
    WAL_PAGES_MAX,
    Database,
    connect_durably,
    copy_back,
    pages_to_copy,
)

# From so many pages on, what is new is copied while others commit. Only a log that nobody writes to for a moment can be
# copied whole, and begun again: in one that has become too long a COMMIT copies what is left.
_PAGES_MIN = WAL_PAGES_MAX // 4
# A copy syncs both files, however little there is to copy, and takes the processor from whoever commits meanwhile.
_PAGES_STEP = 500


class Checkpoints:
    """A thread with a connection of its own. Nothing depends on it but the length of the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._is_copying = False
        self._asked_at = 0
        self._thread: threading.Thread | None = None

    def watch(self, writer: Database) -> None:
        """Look after the log that this connection writes."""
        # Opened now: later the path may be another file's.
        database = connect_durably(self._path)
        self._thread = threading.Thread(
            target=self._copy, args=(database,), name="sqlite-checkpoint", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:
            database.close()  # No room for another thread: now and then a COMMIT copies, as SQLite does it.
        else:
            writer.set_wal_hook(self._committed)

    def close(self) -> None:
        """Stop, once what is being copied is copied."""
        self._asked.put(item=False)
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def _committed(self, writer: Database, _: str, pages: int, /) -> int:
        """Called by each COMMIT, which is done by then: whatever goes wrong here must not look like its failure.

        It may be interrupted anywhere, so it takes no lock that it would leave behind.
        """
        if pages < self._asked_at:
            self._asked_at = 0  # The log has begun again.
        if not self._is_copying:
            if pages >= WAL_PAGES_MAX:
                copy_back(writer)
            elif pages >= max(_PAGES_MIN, self._asked_at + _PAGES_STEP):
                self._asked_at = pages
                # Each of the processes that share a log sees it grow; one that copies does it for all.
                if pages_to_copy(writer) >= _PAGES_STEP:
                    self._is_copying = True
                    self._asked.put(item=True)
        return OK

    def _copy(self, database: Database) -> None:
        while self._asked.get():
            copy_back(database)
            self._is_copying = False
        database.close()
