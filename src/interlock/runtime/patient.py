"""The kernel for a caller without an event loop: it outlasts what `DirectStore` does not."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from interlock.kernel.command import Command
from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.runtime.requests import REQUESTS
from interlock.store.urls import store_for

T = TypeVar("T")

_ANSWER_SECONDS = 10.0


class PatientStore:
    """A store of any kind, opened and brought to the current schema, and a kernel on it. Blocking."""

    def __init__(self, url: str, *, acquire_seconds: float, makes: bool = True) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = store_for(url, lanes=1, opening_seconds=acquire_seconds, makes=makes)
        limits = KernelLimits(
            acquire_seconds=acquire_seconds, answer_seconds=max(_ANSWER_SECONDS, acquire_seconds)
        )
        self._kernel = Kernel(self._store, new_id=new_id, limits=limits, requests=REQUESTS)
        try:
            self._loop.run_until_complete(self._open())
        except BaseException:
            self._loop.close()
            raise

    def run(self, command: Command[T]) -> T:
        """Decide one command durably."""
        return self._loop.run_until_complete(self._kernel.run(command))

    def close(self) -> None:
        """Finish, and let go of the store."""
        try:
            self._loop.run_until_complete(self._close())
        finally:
            self._loop.close()

    async def _open(self) -> None:
        await self._store.open()
        self._kernel.start()

    async def _close(self) -> None:
        await self._kernel.close()
        await self._store.close()
