"""A kernel on a store in this process, without a service: for a program that makes a few calls and ends.

It is the same kernel and store as a server's, without routes, metrics, sweeps or listeners: `interlock exec` runs
before every action of an agent, and every import costs time.
"""

from __future__ import annotations

import os
import pwd
from typing import TypeVar

from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import StoreHeld
from interlock.kernel.world import Command
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.service.loop_thread import LoopThread
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

    As the system has it: by what the environment says, one person could be two, and meet a quorum alone.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
