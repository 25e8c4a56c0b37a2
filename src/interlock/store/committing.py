"""COMMIT on a thread of its own, because it waits for the disk; and no more of a detour than that.

A thread that ends beside a busy event loop must first get the interpreter from it, and the loop then gets it back:
several times the price of the sync on a good disk. So where commits are quick the loop stands still for one, at
most `_PATIENCE_SECONDS`. One that takes longer is awaited, and so are all while most do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

_PATIENCE_SECONDS = 0.002
# A commit that copies the log back takes long now and then, which says nothing about the next one.
_COUNTED_SECONDS_MAX = 4 * _PATIENCE_SECONDS
_MEMORY = 8


class Committing:
    """Runs one commit after another, and remembers how long they take."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-commit")
        self._usual_seconds = 0.0

    async def run(self, commit: Callable[[], object]) -> None:
        """Return once it is done, or raise what it raised. Until then the connection is the thread's."""
        done = self._thread.submit(self._timed, commit)
        if self._usual_seconds < _PATIENCE_SECONDS:
            wait([done], _PATIENCE_SECONDS)
        await _ended(done)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def _timed(self, commit: Callable[[], object]) -> None:
        began = time.perf_counter()
        try:
            commit()
        finally:
            took = min(time.perf_counter() - began, _COUNTED_SECONDS_MAX)
            self._usual_seconds += (took - self._usual_seconds) / _MEMORY


async def _ended(done: Future[None]) -> None:
    if done.done():
        return done.result()
    awaited = asyncio.wrap_future(done)
    try:
        await asyncio.shield(awaited)
    except asyncio.CancelledError:
        await asyncio.wait([awaited])
        raise
