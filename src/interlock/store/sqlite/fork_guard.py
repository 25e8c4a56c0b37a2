"""Closes open SQLite files before the process forks, and opens them again afterwards.

SQLite notes in memory which locks its process holds. A forked child inherits the notes but not the locks. It may find
the file locked for ever, or believe that it holds its parent's locks; and the parent may remove a log that the child
still writes to. So a thread with open files closes them and waits while another thread forks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import Protocol

_SECONDS_MAX = 10.0


class Store(Protocol):
    """What has a file open."""

    @property
    def turn(self) -> asyncio.Lock:
        """Whoever has it is the only one that waits for the file."""
        ...

    def let_go(self) -> None:
        """Close the file; whoever asks for it next opens it again."""
        ...


class Standstill:
    """One loop's part in one fork: `reached` once its files are closed, `over` once the fork has happened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()

    def stand(self) -> None:
        """Stop this thread until the fork is over. Nothing may use a file meanwhile, or nothing would be gained."""
        self.reached.set()
        self.over.wait(_SECONDS_MAX)

    async def bring_about(self, stores: list[Store]) -> None:
        """Close the files of all stores of this loop, which stops for them at once, and then stop."""
        async with contextlib.AsyncExitStack() as turns:
            for store in stores:
                await turns.enter_async_context(store.turn)
            for store in stores:
                store.let_go()
            self.stand()


class _Mine(threading.local):
    """What the thread that forks has brought to a standstill."""

    def __init__(self) -> None:
        self.standstills: list[Standstill] = []


_watched: dict[Store, asyncio.AbstractEventLoop] = {}
_mine = _Mine()


def watch(store: Store) -> None:
    """Have it let go of its file on the loop that runs now, before another thread forks, until `unwatch`."""
    _watched[store] = asyncio.get_running_loop()


def unwatch(store: Store) -> None:
    _watched.pop(store, None)


def _before() -> None:
    _mine.standstills = []
    stores: dict[asyncio.AbstractEventLoop, list[Store]] = {}
    for store, loop in tuple(_watched.items()):
        stores.setdefault(loop, []).append(store)
    for loop, its_own in stores.items():
        # A loop cannot wait for itself; whoever forks on it must open stores afterwards.
        if loop.is_running() and loop is not _loop_of_this_thread():
            still = Standstill()
            asyncio.run_coroutine_threadsafe(still.bring_about(its_own), loop)
            _mine.standstills.append(still)
    for still in _mine.standstills:
        still.reached.wait(_SECONDS_MAX)


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
