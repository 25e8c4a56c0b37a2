"""An event loop in its own thread, through which any program can use the kernel.

The program cannot stall this loop, and signals do not interrupt it: they are handled on the main thread, which only
waits for an answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_STOP_SECONDS_MAX = 30.0


class LoopThread:
    """The loop and its thread, which keeps no program from ending."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread, where waiting for an answer would never end."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it on the loop. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_seconds: float | None = None) -> T:
        """What it returns or raises. An interrupt while waiting cancels it."""
        submitted = self.submit(work)
        try:
            return submitted.result(timeout_seconds)
        except BaseException:
            submitted.cancel()
            raise

    def stop(self) -> None:
        """End the thread; nothing may be under way."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS_MAX)
        if not self._thread.is_alive():
            self._loop.close()


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """What it returns or raises, while this loop goes on.

    `asyncio.to_thread` would refuse once the main thread is through, though other threads of the program still call.
    """
    done: Future[T] = Future()

    def carry() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)

    threading.Thread(target=carry, name="interlock-opening", daemon=True).start()
    return await asyncio.wrap_future(done)
