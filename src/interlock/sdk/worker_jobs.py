"""A job that a worker holds, as its handler sees it, the hold on it, and how it is settled.

Whether the job is still held is judged by the worker's own clock (`kernel/hold.py`), so that it stops before another
worker can begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import Executor
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.kernel.hold import HoldState, keep
from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.client import Interlock
from interlock.sdk.held import is_final
from interlock.sdk.outcomes import (
    Conflict,
    Final,
    Forbidden,
    InterlockError,
    InvalidRequest,
    LeaseLost,
    NoStore,
    NotFound,
    Retryable,
    Unauthenticated,
    described,
)

if TYPE_CHECKING:
    from interlock.wire.jobs import HeldJob, Job


class Lost(threading.Event):
    """True once it is set: `if work.lost:` must not be taken for a question and always be answered with yes.

    It is computed from the clock: also in a process that was stopped, whose event loop has not run since.
    """

    def __init__(self, is_lost: Callable[[], bool]) -> None:
        super().__init__()
        self._is_lost = is_lost

    def is_set(self) -> bool:
        return self._is_lost() or super().is_set()

    def __bool__(self) -> bool:
        return self.is_set()


class Hold:
    """The hold on one job: renewed in the background until it is let go or lost."""

    def __init__(self, client: AsyncInterlock, job: HeldJob, *, sent_at: float, lease_seconds: int) -> None:
        self.job = job
        self.permit = job.permit
        self._client = client
        self.lost = Lost(lambda: self._state.is_lost)
        self._state = HoldState(lease_seconds, sent_at, is_final=is_final, on_lost=self.lost.set)
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    @property
    def seconds_left(self) -> float:
        """How long this worker surely holds the job."""
        return self._state.seconds_left

    async def is_ours(self) -> bool:
        """Whether the job may be begun. A claim that took longer than the lease says nothing; a renewal does."""
        state = self._state
        if state.seconds_left <= 0:
            with contextlib.suppress(InterlockError, TimeoutError), state.renewal():
                async with asyncio.timeout(state.lease_seconds):
                    await self._renew(None)
        return not state.is_lost

    async def keep(self) -> None:
        """Renew again and again; return once the job is lost or settled."""
        await keep(self._state, lambda: self._renew(None))

    async def renew(self, checkpoint: Any) -> None:
        """Renew once. Raises `LeaseLost` if this worker no longer holds the job."""
        state, why = self._state, None
        if not state.is_over:
            try:
                with state.renewal():
                    async with asyncio.timeout(state.seconds_left):
                        await self._renew(checkpoint)
            except (InterlockError, TimeoutError) as trouble:
                if not state.is_lost:
                    raise
                why = trouble
        if state.is_lost:
            message = f"{self.job.id} is no longer held under fence {self.job.fence}; stop working on it"
            raise LeaseLost(message) from why

    async def settle(self, attempt: Callable[[], Awaitable[Job]]) -> Job:
        """Say how the work ended, while no renewal is under way: one behind it would come with a stale fence."""
        async with self._turn:
            job = await attempt()
            self._state.is_settled = True
            return job

    def renew_from_thread(self, checkpoint: Any) -> None:
        """The same, from a handler's thread."""
        asyncio.run_coroutine_threadsafe(self.renew(checkpoint), self._loop).result()

    async def _renew(self, checkpoint: Any) -> None:
        async with self._turn:
            if not self._state.is_settled:
                renewed = await self._client.renew_job(self.job.id, self.job.fence, checkpoint=checkpoint)
                self.permit = renewed.permit


class _Work:
    """What every handler gets."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        job = hold.job
        self.id = job.id
        self.topic = job.topic
        self.payload: Any = job.payload
        self.job_hash = job.job_hash
        self.fence = job.fence
        self.attempt = job.attempt
        self.max_attempts = job.max_attempts
        self.last_checkpoint: Any = job.checkpoint
        self.job = job

    @property
    def permit(self) -> str:
        """The newest permit; hand it to the tool that does the work."""
        return self._hold.permit

    @property
    def lost(self) -> Lost:
        """True, and set, once this worker no longer holds the job; check it before anything that cannot be undone."""
        return self._hold.lost

    @property
    def seconds_left(self) -> float:
        """How long this worker surely holds the job if no renewal succeeds."""
        return self._hold.seconds_left


class Work(_Work):
    """A job in a handler that is a plain function, on a thread of its own."""

    def checkpoint(self, value: Any) -> None:
        """Keep `value` for the next attempt. Raises `LeaseLost` if this attempt no longer holds the job."""
        self._hold.renew_from_thread(value)


class AsyncWork(_Work):
    """A job in a handler that is a coroutine function. It is cancelled when the job is lost."""

    async def checkpoint(self, value: Any) -> None:
        """Keep `value` for the next attempt. Raises `LeaseLost` if this attempt no longer holds the job."""
        await self._hold.renew(value)


async def call_handler(
    function: Callable[..., Any], hold: Hold, *, keeping: asyncio.Task[None], threads: Executor | None
) -> Any:
    """Run the handler. A coroutine is cancelled when its job is lost; a thread cannot be, and is told."""
    if not inspect.iscoroutinefunction(function):
        return await asyncio.get_running_loop().run_in_executor(threads, _call, function, Work(hold))
    running = asyncio.ensure_future(_awaited(function(AsyncWork(hold))))
    is_over = False
    try:
        await asyncio.wait({running, keeping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_over = running.done()
        if not is_over:
            running.cancel()
            await asyncio.wait({running})
    if is_over and running.cancelled():
        # Nobody told it to stop. As if it had been, its job would be given back for ever, no attempt counted.
        raise _quit(asyncio.CancelledError())
    return running.result()


def _call(function: Callable[[Work], Any], work: Work) -> Any:
    try:
        return _run(function(work))
    except Exception:
        raise
    except BaseException as error:
        raise _quit(error) from error


def _run(result: Any) -> Any:
    """A result, but none that would have to be run first: that work was done would not be true."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        if not inspect.isasyncgen(result):
            result.close()
        kind = type(result).__name__
        raise Final(f"the handler returned a {kind}, so nothing was done; make it a function or `async def`")
    return result


async def _awaited(working: Awaitable[Any]) -> Any:
    try:
        return _run(await working)
    except SystemExit as error:
        raise _quit(error) from error


def _quit(error: BaseException) -> Retryable:
    return Retryable(f"the handler raised {type(error).__name__}, which ends its job and not the worker")


log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
# Said by the service, these do not pass by themselves.
REFUSALS = (Forbidden, Unauthenticated, InvalidRequest, NoStore)


class Settled(StrEnum):
    """How a worker's hold on a job ended. `LOST`: another worker may have it, and nothing of this attempt was kept."""

    SUCCEEDED = "succeeded"
    RETRYING = "retrying"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"


_OF_STATE = {"SUCCEEDED": Settled.SUCCEEDED, "FAILED": Settled.FAILED, "PENDING": Settled.RETRYING}


async def settle_result(client: AsyncInterlock, hold: Hold, result: Any) -> Settled:
    """Complete the job. A result that the service cannot keep makes it a dead letter that says so."""
    job = hold.job
    try:
        return await _settle(
            hold, lambda: client.complete_job(job.id, job.fence, result=result, key=_key(hold, "complete"))
        )
    except InvalidRequest as refused:
        return await settle_failure(
            client, hold, Final(f"the work is done, but its result was refused: {refused}")
        )


async def settle_failure(client: AsyncInterlock, hold: Hold, error: Exception) -> Settled:
    """Fail the job; only `Final` is not tried again."""
    if isinstance(error, LeaseLost):
        return Settled.LOST
    job, retryable = hold.job, not isinstance(error, Final)
    expected = isinstance(error, Final | Retryable)
    said = described(error)
    trace = None if expected else error
    log.warning("work on %s failed: %s: %s", job.id, said["type"], said["message"], exc_info=trace)
    return await _settle(
        hold,
        lambda: client.fail_job(job.id, job.fence, error=said, retryable=retryable, key=_key(hold, "fail")),
    )


async def settle_release(client: AsyncInterlock, hold: Hold) -> Settled:
    """Give the job back."""
    job = hold.job
    ended = await _settle(hold, lambda: client.release_job(job.id, job.fence, key=_key(hold, "release")))
    return Settled.RELEASED if ended is Settled.RETRYING else ended


async def _settle(hold: Hold, attempt: Callable[[], Awaitable[Job]]) -> Settled:
    """Try until the service has answered or the job is lost. Repeating is safe: the call carries a key."""
    while not hold.lost.is_set():
        try:
            job = await hold.settle(attempt)
        except InterlockError as error:
            if isinstance(error, REFUSALS) and not error.is_foreign:
                raise
            if isinstance(error, Conflict | NotFound) and not error.is_foreign:
                log.warning("%s was lost: %s", hold.job.id, error)
                return Settled.LOST
            log.warning("cannot say how %s ended: %s", hold.job.id, error)
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return _OF_STATE.get(job.state, Settled.FAILED)
    return Settled.LOST


def _key(hold: Hold, verb: str) -> str:
    return f"{hold.job.id}/{hold.job.fence}/{verb}"


@contextlib.contextmanager
def calling(told: Callable[[], None], signals: Iterable[signal.Signals]) -> Generator[None]:
    """Call `told` for each of these signals. They are the main thread's; elsewhere there is `stop`."""
    loop = asyncio.get_running_loop()
    heard = tuple(signals) if threading.current_thread() is threading.main_thread() else ()
    for number in heard:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


def async_client(
    client: Interlock | AsyncInterlock | str | None,
    key: str | None,
    store: str | None,
    *,
    make_store: bool = True,
) -> AsyncInterlock:
    if isinstance(client, AsyncInterlock):
        return client
    if not isinstance(client, Interlock):
        return AsyncInterlock(client, key, store=store, make_store=make_store)
    session = client.session
    twin = AsyncInterlock(
        client.url,
        session.key,
        store=None if client.url else client.store,
        retry=session.retry,
        on_retry=session.on_retry,
        timeout=session.timeout_seconds,
        make_store=client.make_store,
    )
    twin.transport = client.transport.in_loop()
    return twin
