"""The threads of a SQLite store: for COMMIT, for reads that may take a while, and for copying the log into the file.

They are daemon threads. Those of `concurrent.futures` accept no more work once the main thread has ended, but other
threads of the program may still call; these run until the program ends.

By default SQLite copies its log inside one COMMIT every thousand pages, and every commit behind it waits. Here a
thread copies it while others commit (decision 0034).

Files are closed before the process forks, and opened again afterwards (decision 0029). SQLite notes in memory which
locks its process holds. A forked child inherits the notes but not the locks: it may find the file locked for ever, or
believe that it holds its parent's locks; and the parent may remove a log that the child still writes to. So a thread
with open files closes them and waits while another thread forks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from interlock.kernel.record import Params
from interlock.kernel.storage import Row
from interlock.store.catalogue import NamedSql
from interlock.store.sqlite.batch import rows_of
from interlock.store.sqlite.driver import (
    FAILED,
    OK,
    WAL_PAGES_MAX,
    Database,
    connect_durably,
    copy_back,
    pages_to_copy,
)

T = TypeVar("T")


class WorkerThreads:
    """Up to `count` threads that do the submitted work in order. They start when there is work."""

    def __init__(self, name: str, *, count: int = 1) -> None:
        self._name = name
        self._count = count
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. A caller that is cancelled meanwhile leaves only once it has ended."""
        done = asyncio.wrap_future(self.submit(work))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Hand work over. Raises `RuntimeError` if there is no thread for it and none can be started."""
        done: Future[T] = Future()
        if len(self._threads) < self._count:
            self._start()
        self._work.put((done, work))
        return done

    def stop(self) -> None:
        """Finish the submitted work, and end the threads. Later work starts new ones."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self) -> None:
        while (handed := self._work.get()) is not None:
            done, work = handed
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                done.set_exception(error)
            else:
                done.set_result(result)
            del handed, done, work


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


# From this many pages on, new pages are copied while others commit. The log starts again at its beginning only when
# it was copied whole while no process wrote; once it is too long, a COMMIT copies the rest itself.
_PAGES_MIN = WAL_PAGES_MAX // 4
# A copy syncs both files, however little there is to copy, and takes processor time from commits.
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
        """Finish the copy under way, then stop."""
        self._thread.stop()
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _committed(self, writer: Database, _: str, pages: int, /) -> int:
        """Called after each COMMIT: an error here must not look like a failed COMMIT."""
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


_STANDSTILL_SECONDS_MAX = 10.0


class FileHolder(Protocol):
    """A store that has a file open."""

    @property
    def turn(self) -> asyncio.Lock:
        """Held by the one task that waits for the file."""
        ...

    def let_go(self) -> None:
        """Close the file; the next use opens it again."""
        ...


class Standstill:
    """One loop's part in one fork: `reached` once its files are closed, `over` once the fork has happened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()

    def stand(self) -> None:
        """Stop this thread until the fork is over: no file may be used meanwhile."""
        self.reached.set()
        self.over.wait(_STANDSTILL_SECONDS_MAX)

    async def bring_about(self, stores: list[FileHolder]) -> None:
        """Close the files of all stores of this loop at once, then stop the loop."""
        async with contextlib.AsyncExitStack() as turns:
            for store in stores:
                await turns.enter_async_context(store.turn)
            for store in stores:
                store.let_go()
            self.stand()


class _Mine(threading.local):
    """The loops that the forking thread has stopped."""

    def __init__(self) -> None:
        self.standstills: list[Standstill] = []


_watched: dict[FileHolder, asyncio.AbstractEventLoop] = {}
_mine = _Mine()


def watch(store: FileHolder) -> None:
    """Close its file, on the loop that runs now, whenever another thread forks, until `unwatch`."""
    _watched[store] = asyncio.get_running_loop()


def unwatch(store: FileHolder) -> None:
    _watched.pop(store, None)


def _before() -> None:
    _mine.standstills = []
    stores: dict[asyncio.AbstractEventLoop, list[FileHolder]] = {}
    for store, loop in tuple(_watched.items()):
        stores.setdefault(loop, []).append(store)
    for loop, its_own in stores.items():
        # A loop cannot wait for itself; a program that forks on it must open stores afterwards.
        if loop.is_running() and loop is not _loop_of_this_thread():
            still = Standstill()
            asyncio.run_coroutine_threadsafe(still.bring_about(its_own), loop)
            _mine.standstills.append(still)
    for still in _mine.standstills:
        still.reached.wait(_STANDSTILL_SECONDS_MAX)


def _after_in_parent() -> None:
    for still in _mine.standstills:
        still.over.set()


def _after_in_child() -> None:
    _watched.clear()


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
