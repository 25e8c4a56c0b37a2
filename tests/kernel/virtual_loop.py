"""An event loop with a clock of its own: sleeping takes no time, and timers fire in their order."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")

# A hang guard in virtual time: whatever waits this long waits for ever.
LONGEST_SECONDS = 3600.0


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it moves the clock to when something is due."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("every task waits for something that nobody will do")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time()` is virtual."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a loop of virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(asyncio.wait_for(test(*args, **kwargs), LONGEST_SECONDS))
        finally:
            loop.close()

    return run
