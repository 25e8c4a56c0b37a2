"""Commands on the embedded store and nothing else: for a program that asks a question or two and is gone.

No routes, metrics, sweeps or listeners, and while all goes well no event loop and no thread either (blocking.py):
`interlock exec` runs before every action of an agent, and pays for each import.
"""

from __future__ import annotations

import os
import pwd
import threading
from typing import TYPE_CHECKING, TypeVar

from interlock.identity.model import Caller
from interlock.identity.rules import EnsureLocalPerson
from interlock.kernel.command import Command
from interlock.kernel.refusal import LockBusy
from interlock.kernel.storage import LockTimeout, StoreDown, WriteConflict
from interlock.runtime import blocking
from interlock.runtime.places import embedded_store, store_named

if TYPE_CHECKING:
    from interlock.runtime.patient import PatientStore
    from interlock.store.sqlite_blocking import BlockingSqlite

T = TypeVar("T")

TENANT = "default"


class DirectStore:
    """Runs commands one at a time, as the embedded store's own user. Blocking."""

    def __init__(
        self, store_url: str | None = None, *, acquire_seconds: float = 2.0, makes_store: bool = True
    ) -> None:
        self._url = store_named(store_url) or embedded_store()
        self._makes_store = makes_store
        self._acquire_seconds = max(acquire_seconds, 0.1)
        self._patient: PatientStore | None = None
        self._turn = threading.Lock()
        self.caller = Caller(tenant=TENANT, principal=f"local:{local_user()}")
        self._file = self._opened()
        try:
            self.run(EnsureLocalPerson(tenant=TENANT, name=self.caller.principal))
        except BaseException:
            self.close()
            raise

    def run(self, command: Command[T]) -> T:
        """Decide one command durably. Raises its `Refusal`, or a `Fault`."""
        with self._turn:
            if self._file is not None:
                try:
                    return blocking.decide(self._file, command, self._acquire_seconds)[0]
                except (WriteConflict, StoreDown):
                    pass  # Nothing was written.
            return self._patiently().run(command)

    def close(self) -> None:
        """Finish, and let go of the store."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._patient is not None:
            self._patient.close()
            self._patient = None

    def _opened(self) -> BlockingSqlite | None:
        try:
            return blocking.file_of(self._url, opening_seconds=self._acquire_seconds)
        except LockTimeout as busy:
            raise LockBusy(str(busy), retry_after_seconds=1.0) from busy

    def _patiently(self) -> PatientStore:
        if self._patient is None:
            from interlock.runtime.patient import PatientStore

            self._patient = PatientStore(
                self._url, acquire_seconds=self._acquire_seconds, makes=self._makes_store
            )
        return self._patient


def local_user() -> str:
    """The name of whoever runs this; in a container without one, the number.

    As the system has it: by what the environment says, one person could be two, and meet a quorum alone.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
