"""What becomes of an open SQLite file when its process forks: it is closed first, and opened again afterwards.

SQLite notes in memory which locks its process has. A child inherits the notes and not the locks: it finds the file held
for ever, or takes its parent's locks for its own, and its parent, alone as far as anybody can see, removes the log
that the child goes on writing to. So whoever has a file open in one thread stands still, with the file closed, while
another thread forks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine

_SECONDS_MAX = 10.0


class Standstill:
    """One store's part in one fork: `reached` once its file is closed, `over` once the fork has happened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()

    def stand(self) -> None:
        """Stop this thread until the fork is over. Nothing may use the file meanwhile, or nothing would be gained."""
        self.reached.set()
        self.over.wait(_SECONDS_MAX)


class _Mine(threading.local):
    """What the thread that forks has brought to a standstill."""

    def __init__(self) -> None:
        self.standstills: list[Standstill] = []


LetFork = Callable[[Standstill], Coroutine[None, None, None]]

_watched: dict[LetFork, asyncio.AbstractEventLoop] = {}
_mine = _Mine()


def watch(let_fork: LetFork) -> None:
    """Have `let_fork` run on the loop that runs now, before another thread forks, until `unwatch`."""
    _watched[let_fork] = asyncio.get_running_loop()


def unwatch(let_fork: LetFork) -> None:
    _watched.pop(let_fork, None)


def _before() -> None:
    _mine.standstills = []
    for let_fork, loop in tuple(_watched.items()):
        # A loop cannot wait for itself; whoever forks on it must open stores afterwards.
        if loop.is_running() and loop is not _loop_of_this_thread():
            still = Standstill()
            asyncio.run_coroutine_threadsafe(let_fork(still), loop)
            _mine.standstills.append(still)
    for still in _mine.standstills:
        still.reached.wait(_SECONDS_MAX)


def _after_in_parent() -> None:
    for still in _mine.standstills:
        still.over.set()


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_watched.clear)
