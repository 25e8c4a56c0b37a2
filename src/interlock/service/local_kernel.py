"""A kernel on a store in this process, without a service: for a program that makes a few calls and ends.

It is the same kernel and store as a server's, without routes, metrics, sweeps or listeners: `interlock exec` runs
before every action of an agent, and every import costs time. Its event loop runs in a thread of its own: the program
cannot stall that loop, and signals do not interrupt it, since the main thread handles them.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import StoreHeld
from interlock.kernel.world import Command
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.service.settings import embedded_store, store_named
from interlock.store import store_for

T = TypeVar("T")

TENANT = "default"
_ANSWER_SECONDS = 10.0


class LocalKernel:
    """Decides commands as the embedded store's own user. Blocking; any thread may call."""

    def __init__(
        self, store_url: str | None = None, *, acquire_seconds: float = 2.0, makes_store: bool = True
    ) -> None:
        url = store_named(store_url) or embedded_store()
        seconds = max(acquire_seconds, 0.1)
        self.caller = Caller(tenant=TENANT, principal=f"local:{local_user()}")
        self._store = store_for(url, lanes=1, opening_seconds=seconds, makes=makes_store)
        self._limits = KernelLimits(acquire_seconds=seconds, answer_seconds=max(_ANSWER_SECONDS, seconds))
        self._loop = LoopThread("interlock-kernel")
        try:
            self._kernel = self._loop.run(self._open())
        except StoreHeld as held:
            self._loop.stop()
            raise LockBusy(str(held), retry_after_seconds=1.0) from held
        except BaseException:
            self._loop.stop()
            raise
        try:
            self.run(EnsureLocalPerson(tenant=TENANT, name=self.caller.principal))
        except BaseException:
            self.close()
            raise

    def run(self, command: Command[T]) -> T:
        """Decide one command durably. Raises its `Refusal`, or a `Fault`."""
        return self._loop.run(self._kernel.run(command))

    def close(self) -> None:
        """Finish, and let go of the store."""
        try:
            self._loop.run(self._close())
        finally:
            self._loop.stop()

    async def _open(self) -> Kernel:
        await self._store.open()
        kernel = Kernel(self._store, new_id=new_id, limits=self._limits)
        kernel.start()
        return kernel

    async def _close(self) -> None:
        await self._kernel.close()
        await self._store.close()


def local_user() -> str:
    """The name of the user who runs this process; in a container without names, the number.

    It is the system's name, not one from the environment: with two names, one person could meet a quorum alone.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


_STOP_SECONDS_MAX = 30.0


class LoopThread:
    """An event loop in a daemon thread, so that it does not keep the program from ending."""

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
    """Run `work` in a daemon thread while this loop goes on; the result is what it returns or raises.

    `asyncio.to_thread` refuses once the main thread has ended, although other threads of the program may still
    call.
    """
    done: Future[T] = Future()

    def carry() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)

    threading.Thread(target=carry, name="interlock-opening", daemon=True).start()
    return await asyncio.wrap_future(done)
