"""Reads of a SQLite file that may take a while: beside the event loop, on a few threads."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from interlock.kernel.record import Params
from interlock.store.contract import Row
from interlock.store.named_sql import NamedSql
from interlock.store.sqlite.batch import rows_of
from interlock.store.sqlite.driver import Database, connect_durably
from interlock.store.sqlite.worker_threads import WorkerThreads

_THREADS = 2


class QueryThreads:
    """Plain reads for people, off the event loop, each thread with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = WorkerThreads("sqlite-query", count=_THREADS)
        self._own = threading.local()
        self._opened: list[Database] = []

    async def run(self, block: NamedSql, params: Params, bytes_max: int | None = None) -> list[Row]:
        return await self._threads.run(partial(self._run, block, params, bytes_max))

    def close(self) -> None:
        """Finish, and close the connections; later reads open new ones."""
        self._threads.stop()
        for database in self._opened:
            database.close()
        self._opened.clear()

    def _run(self, block: NamedSql, params: Params, bytes_max: int | None) -> list[Row]:
        database: Database | None = getattr(self._own, "database", None)
        if database is None:
            database = self._own.database = connect_durably(self._path)
            self._opened.append(database)
        return rows_of(database, block, params, bytes_max)
