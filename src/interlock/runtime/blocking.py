"""One command at a time on the SQLite file, on the caller's own thread: no event loop, no other thread.

A batch of one is decided by the kernel's own `Batch`. Whatever does not go well, and has written nothing, is left to
a kernel, which knows what to do.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock.kernel.batch import Batch
from interlock.kernel.command import Command
from interlock.kernel.ids import new_id
from interlock.kernel.pending import Pending
from interlock.kernel.refusal import Fault, OutcomeUnknown
from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, LockTimeout, StoreDown, is_remembered
from interlock.runtime.requests import REQUESTS

if TYPE_CHECKING:
    from interlock.store.sqlite_blocking import BlockingSqlite

T = TypeVar("T")

FILE = "sqlite:///"
_SETTLE_SECONDS = 2.0


def file_of(store_url: str, *, opening_seconds: float, copies_beside: bool = False) -> BlockingSqlite | None:
    """The store's file, if it is one and its schema needs no work; None leaves the store to a kernel.

    `LockTimeout` if another process has the file to itself for too long.
    """
    path = Path(store_url.removeprefix(FILE))
    if not store_url.startswith(FILE) or not path.exists():
        return None
    from interlock.store.sqlite.driver import BUSY, FAILED
    from interlock.store.sqlite_blocking import BlockingSqlite

    try:
        file = BlockingSqlite(path, copies_beside=copies_beside, opening_seconds=opening_seconds)
    except BUSY as busy:
        raise LockTimeout("another process has the database file to itself") from busy
    except FAILED:
        return None
    is_current = False
    try:
        with contextlib.suppress(StoreDown):
            is_current = file.is_current()
    finally:
        if not is_current:
            file.close()
    return file if is_current else None


def decide(file: BlockingSqlite, command: Command[T], acquire_seconds: float) -> tuple[T, frozenset[str]]:
    """Decide one command durably; its result, and the topics on which somebody may wait for it.

    Raises its `Refusal`; a `Fault` if its time is up or nobody can say what became of it; and anything else only
    where nothing was written.
    """
    began, began_at = time.monotonic(), time.time()
    # Nobody waits on a future: the outcome is taken from the batch.
    member = Pending(command, cast("Any", None), now=began, budget=acquire_seconds, weight=0)
    batch = Batch(new_id("batch"), [member], new_id, REQUESTS)
    try:
        file.transact(batch.transaction(acquire_seconds))
    except LockTimeout:
        raise _locked(member, began) from None
    except CommitUnconfirmed as unconfirmed:
        raise OutcomeUnknown(f"{unconfirmed}; look at the record before repeating") from unconfirmed
    except CommitUnknown as lost:
        _settle(file, batch.id, lost, began_at)
    outcome = batch.outcomes[member]
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome, batch.wakes


def _settle(file: BlockingSqlite, batch_id: str, lost: CommitUnknown, began_at: float) -> None:
    """Return if the batch committed; `StoreDown` if it never can; `OutcomeUnknown` if nobody can say."""
    if not is_remembered(began_at):
        raise OutcomeUnknown(
            "this process slept during a COMMIT; look at the record before repeating"
        ) from lost
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
