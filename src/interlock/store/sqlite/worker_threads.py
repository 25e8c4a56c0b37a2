"""Threads for what waits: COMMIT for the disk, and reads that may take a while.

They are daemon threads. Those of `concurrent.futures` take no more work once the main thread is through, and a program
may have others that still call; these go on until the program's very end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerThreads:
    """Up to `count` threads that take what is handed to them in its order. They start when there is work."""

    def __init__(self, name: str, *, count: int = 1) -> None:
        self._name = name
        self._count = count
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Whoever is cancelled meanwhile leaves only once it has ended."""
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
        """Finish what was handed over, and end the threads. Work that comes later starts new ones."""
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
            except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
                done.set_exception(error)
            else:
                done.set_result(result)
            del handed, done, work
