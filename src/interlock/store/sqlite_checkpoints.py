"""Copying SQLite's log back into its file, beside the commits that write the log (decision 0034).

SQLite's own way is that every so many pages one COMMIT does it, and everybody behind that one waits.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from interlock.store.sqlite_driver import OK, WAL_PAGES_MAX, Database, connect_durably, copy_back

# From so many pages on, what is new is copied while others commit. Only a log that nobody writes to for a moment can be
# copied whole, and begun again: in one that has become too long a COMMIT copies what is left.
_PAGES_MIN = WAL_PAGES_MAX // 4


class Checkpoints:
    """A thread with a connection of its own. Nothing depends on it but the length of the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-checkpoint")
        self._copying: Future[None] | None = None
        self._database: Database | None = None

    def watch(self, writer: Database) -> None:
        """Look after the log that this connection writes."""
        # Opened now: later the path may be another file's.
        self._database = connect_durably(self._path)
        writer.set_wal_hook(self._committed)

    def close(self) -> None:
        """Stop, once what is being copied is copied."""
        self._thread.shutdown()
        if self._database:
            self._database.close()

    def _committed(self, writer: Database, _: str, pages: int, /) -> int:
        """Called by each COMMIT, which is done by then: whatever goes wrong here must not look like its failure."""
        if self._copying is None or self._copying.done():
            if pages >= WAL_PAGES_MAX:
                copy_back(writer)
            elif pages >= _PAGES_MIN:
                self._begin()
        return OK

    def _begin(self) -> None:
        # One that is closing takes nothing more; to close the file copies what is left.
        if self._database:
            with contextlib.suppress(RuntimeError):
                self._copying = self._thread.submit(copy_back, self._database)
