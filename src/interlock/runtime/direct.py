"""A kernel on the embedded store and nothing else: for a command that asks a question or two and is gone.

No routes, metrics, sweeps or listeners: `interlock exec` runs before every action of an agent, and pays for
each import.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from typing import TypeVar

from interlock.identity.model import Caller
from interlock.identity.rules import EnsureLocalPerson
from interlock.kernel.command import Command
from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel, KernelLimits
from interlock.kernel.record import Kind, Record
from interlock.store.urls import store_for

T = TypeVar("T")
R = TypeVar("R", bound=Record)

TENANT = "default"
EMBEDDED_STORE = "sqlite:///.interlock/interlock.db"


class DirectStore:
    """Runs commands one at a time, as the embedded store's own user. Blocking; of one thread."""

    def __init__(self, store_url: str | None = None, *, acquire_seconds: float = 2.0) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = store_for(store_url or os.environ.get("INTERLOCK_STORE") or EMBEDDED_STORE, lanes=1)
        limits = KernelLimits(
            acquire_seconds=max(acquire_seconds, 0.1), answer_seconds=max(10.0, acquire_seconds)
        )
        self._kernel = Kernel(self._store, new_id=new_id, limits=limits)
        self.caller = Caller(tenant=TENANT, principal=f"local:{local_user()}")
        try:
            self._loop.run_until_complete(self._open())
        except BaseException:
            self._loop.close()
            raise

    def run(self, command: Command[T]) -> T:
        """Decide one command durably."""
        return self._loop.run_until_complete(self._kernel.run(command))

    def get(self, kind: Kind[R], record_id: str) -> R | None:
        """One record as last committed."""
        return self._loop.run_until_complete(self._store.get(kind, self.caller.tenant, record_id))

    def close(self) -> None:
        """Finish, and let go of the store."""
        try:
            self._loop.run_until_complete(self._close())
        finally:
            self._loop.close()

    async def _open(self) -> None:
        await self._store.open()
        self._kernel.start()
        await self._kernel.run(EnsureLocalPerson(tenant=TENANT, name=self.caller.principal))

    async def _close(self) -> None:
        await self._kernel.close()
        await self._store.close()


def local_user() -> str:
    """The name of whoever runs this, as `getpass.getuser` finds it."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if user := os.environ.get(name):
            return user
    return pwd.getpwuid(os.getuid()).pw_name
