"""While a gated function runs: its job is held, so that exactly one process runs it, and it says how it ended.

The hold is renewed in the background. What the function returned or raised is the caller's business and
always reaches the caller; if the service cannot be told how it ended, that is logged, the lease runs out, and
the service's own record says so.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from interlock.sdk.arguments import Arguments
from interlock.sdk.flow import settled
from interlock.sdk.operations.work import complete, fail, renew
from interlock.sdk.outcomes import Conflict, InterlockError, NotFound
from interlock.sdk.worker_errors import described

if TYPE_CHECKING:
    from interlock.sdk.flow import Flow
    from interlock.sdk.models import HeldJob
    from interlock.sdk.session import Session

log = logging.getLogger(__name__)

GATE_LEASE_SECONDS = 60
_RENEW_SECONDS = GATE_LEASE_SECONDS / 3
_RENEW_AGAIN_SECONDS = 2.0

Drive: TypeAlias = "Callable[[Flow[Any]], Any]"
DriveInLoop: TypeAlias = "Callable[[Flow[Any]], Awaitable[Any]]"


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run one call: its arguments, and the job it is held under.

    `repeatable` is whether the same call can find the job again; then a failure leaves it to be tried again.
    """

    session: Session
    arguments: Arguments
    job: HeldJob
    repeatable: bool

    def renewal(self) -> Flow[Any]:
        return renew(self.session, self.job.id, self.job.fence)

    def ending(self, error: BaseException | None) -> Flow[Any]:
        """Say how the call ended. A generator that nobody wants the rest of has ended well."""
        job = self.job
        if error is None or isinstance(error, GeneratorExit):
            return complete(self.session, job.id, job.fence, key=f"{job.id}/{job.fence}/complete")
        return fail(
            self.session,
            job.id,
            job.fence,
            error=described(error),
            retryable=self.repeatable,
            key=f"{job.id}/{job.fence}/fail",
        )


@contextlib.contextmanager
def held(passage: Passage, drive: Drive) -> Generator[None]:
    """Hold the job while the block runs, renewing it from a thread."""
    over = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(passage, drive, over), name="interlock-gate", daemon=True
    )
    renewing.start()
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        # A generator that is left over when the interpreter ends can tell nobody: threads stand still by then.
        if not sys.is_finalizing():
            over.set()
            renewing.join()
            with _told(passage):
                drive(passage.ending(error))


@contextlib.asynccontextmanager
async def held_in_loop(passage: Passage, drive: DriveInLoop) -> AsyncGenerator[None]:
    """Hold the job while the block runs, renewing it from a task."""
    import asyncio

    renewing = asyncio.create_task(_renew_in_loop(passage, drive))
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        renewing.cancel()
        with _told(passage):
            await drive(settled(passage.ending(error)))


def _renew(passage: Passage, drive: Drive, over: threading.Event) -> None:
    rest = _RENEW_SECONDS
    while not over.wait(rest):
        rest = _RENEW_SECONDS
        try:
            drive(passage.renewal())
        except InterlockError as trouble:
            if _is_lost(passage, trouble):
                return
            rest = _RENEW_AGAIN_SECONDS


async def _renew_in_loop(passage: Passage, drive: DriveInLoop) -> None:
    import asyncio

    rest = _RENEW_SECONDS
    while True:
        await asyncio.sleep(rest)
        rest = _RENEW_SECONDS
        try:
            await drive(passage.renewal())
        except InterlockError as trouble:
            if _is_lost(passage, trouble):
                return
            rest = _RENEW_AGAIN_SECONDS


def _is_lost(passage: Passage, trouble: InterlockError) -> bool:
    """Whether the job is somebody else's now: every further renewal would be one more stale write in the record."""
    _log(passage, trouble)
    return isinstance(trouble, Conflict | NotFound) and not trouble.is_foreign


@contextlib.contextmanager
def _told(passage: Passage) -> Generator[None]:
    """Log what the service could not be told; the function's own outcome goes before it."""
    try:
        yield
    except InterlockError as trouble:
        _log(passage, trouble)


def _log(passage: Passage, trouble: InterlockError) -> None:
    log.warning("job %s: %s", passage.job.id, trouble)
