"""A thread beside the event loop, for what has to wait: COMMIT for the disk, and BEGIN for other processes.

A thread that ends beside a busy event loop must first get the interpreter from it, and the loop then gets it back:
several times the price of the sync on a good disk. So where commits are quick the loop stands still for one, at
most `_PATIENCE_SECONDS`. One that takes longer is awaited, and so are all while most do.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_PATIENCE_SECONDS = 0.004
# A commit that copies the log back takes long now and then, which says nothing about the next one.
_COUNTED_SECONDS_MAX = 4 * _PATIENCE_SECONDS
_MEMORY = 8


class Aside:
    """Runs one thing after another, and remembers how long commits take. What it uses is its own until it is done."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-aside")
        self._usual_seconds = 0.0

    async def rest(self, until: Callable[[], None]) -> None:
        """Return once it does; everybody else goes on meanwhile."""
        await _ended(self._thread.submit(until))

    async def commit(self, commit: Callable[[], object]) -> None:
        """Return once it is done, or raise what it raised."""
        done = self._thread.submit(self._timed, commit)
        if self._usual_seconds < _PATIENCE_SECONDS:
            with contextlib.suppress(TimeoutError):
                done.result(_PATIENCE_SECONDS)
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
