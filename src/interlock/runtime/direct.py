"""Commands on the embedded store and nothing else: for a program that asks a question or two and is gone.

No routes, metrics, sweeps or listeners, and while all goes well no event loop and no thread either:
`interlock exec` runs before every action of an agent, and pays for each import. A batch of one is decided here
by the kernel's own `Batch`; whatever does not go well is handed to the kernel itself, which knows what to do.
"""

from __future__ import annotations

import os
import pwd
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock.identity.model import Caller
from interlock.identity.rules import EnsureLocalPerson
from interlock.kernel.batch import Batch
from interlock.kernel.command import Command
from interlock.kernel.ids import new_id
from interlock.kernel.pending import Pending
from interlock.kernel.refusal import Fault, OutcomeUnknown
from interlock.kernel.storage import (
    CommitUnconfirmed,
    CommitUnknown,
    LockTimeout,
    StoreDown,
    WriteConflict,
)
from interlock.runtime.places import EMBEDDED_STORE
from interlock.runtime.requests import REQUESTS

if TYPE_CHECKING:
    from interlock.runtime.patient import PatientStore
    from interlock.store.sqlite_blocking import BlockingSqlite

T = TypeVar("T")

TENANT = "default"
_SETTLE_SECONDS = 2.0


class DirectStore:
    """Runs commands one at a time, as the embedded store's own user. Blocking."""

    def __init__(self, store_url: str | None = None, *, acquire_seconds: float = 2.0) -> None:
        self._url = store_url or os.environ.get("INTERLOCK_STORE") or EMBEDDED_STORE
        self._acquire_seconds = max(acquire_seconds, 0.1)
        self._patient: PatientStore | None = None
        self._turn = threading.Lock()
        self.caller = Caller(tenant=TENANT, principal=f"local:{local_user()}")
        self._file = _current_file(self._url)
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
                    return self._decide(self._file, command)
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

    def _decide(self, file: BlockingSqlite, command: Command[T]) -> T:
        began = time.monotonic()
        # Nobody waits on a future: the outcome is taken from the batch.
        member = Pending(command, cast("Any", None), now=began, budget=self._acquire_seconds, weight=0)
        batch = Batch(new_id("batch"), [member], new_id, REQUESTS)
        try:
            file.transact(batch.transaction(self._acquire_seconds))
        except LockTimeout:
            raise _locked(member, began) from None
        except CommitUnconfirmed as unconfirmed:
            raise OutcomeUnknown(f"{unconfirmed}; look at the record before repeating") from unconfirmed
        except CommitUnknown as lost:
            _settle(file, batch.id, lost)
        outcome = batch.outcomes[member]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _patiently(self) -> PatientStore:
        if self._patient is None:
            from interlock.runtime.patient import PatientStore

            self._patient = PatientStore(self._url, acquire_seconds=self._acquire_seconds)
        return self._patient


def _current_file(url: str) -> BlockingSqlite | None:
    """The store's file, if it is one and its schema needs no work; None leaves the store to the kernel."""
    path = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or not path.exists():
        return None
    from interlock.store.sqlite_blocking import BlockingSqlite
    from interlock.store.sqlite_driver import FAILED

    try:
        file = BlockingSqlite(path)
    except FAILED:
        return None
    try:
        is_current = file.is_current()
    except StoreDown:
        is_current = False
    if is_current:
        return file
    file.close()
    return None


def _settle(file: BlockingSqlite, batch_id: str, lost: CommitUnknown) -> None:
    """Return if the batch committed; `StoreDown` if it never can; `OutcomeUnknown` if nobody can say."""
    try:
        committed = file.committed(batch_id, _SETTLE_SECONDS)
    except Exception as error:
        raise OutcomeUnknown(
            f"the store did not answer COMMIT ({lost}) and cannot say more; look at the record before repeating"
        ) from error
    if not committed:
        raise StoreDown(f"a COMMIT was lost on the way: {lost}") from lost


def _locked(member: Pending, began: float) -> Fault:
    from interlock.kernel.trouble import Trouble

    trouble = Trouble()
    trouble.locked(began)
    return trouble.fault(member, time.monotonic(), stuck_at=None, drain_seconds=1.0)


def local_user() -> str:
    """The name of whoever runs this, as `getpass.getuser` finds it; in a container without one, the number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if user := os.environ.get(name):
            return user
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
