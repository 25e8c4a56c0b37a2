"""A job in the hands of a worker, as its handler sees it; and the hold on it that is kept meanwhile.

Whether the job is still ours is judged by our own clock, from the moment the last successful renewal was
*sent*: the service counted from some later moment, so we stop before anybody else can begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import Executor
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.client import Interlock
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
    from interlock.sdk.async_client import AsyncInterlock
    from interlock.wire.jobs import HeldJob, Job


RENEW_SHARE = 1 / 3


class Lost(threading.Event):
    """True once it is set: `if work.lost:` must not be taken for a question and always be answered with yes."""

    def __bool__(self) -> bool:
        return self.is_set()


class Hold:
    """The hold on one job: renewed in the background until it is let go or lost."""

    def __init__(self, client: AsyncInterlock, job: HeldJob, *, sent_at: float, lease_seconds: int) -> None:
        self.job = job
        self.permit = job.permit
        self.lost = Lost()
        self._client = client
        self._lease = lease_seconds
        self._sent_at = sent_at
        self._is_settled = False
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    @property
    def seconds_left(self) -> float:
        """How long the job is surely ours."""
        return 0.0 if self.lost.is_set() else max(0.0, self._sent_at + self._lease - time.monotonic())

    async def is_ours(self) -> bool:
        """Whether the job may be begun. A claim that took longer than the lease says nothing; a renewal does."""
        if self.seconds_left <= 0:
            sent_at = time.monotonic()
            try:
                async with asyncio.timeout(self._lease):
                    renewed = await self._client.renew(self.job.id, self.job.fence)
            except (InterlockError, TimeoutError):
                self.lost.set()
                return False
            self._sent_at, self.permit = sent_at, renewed.permit
        return True

    async def keep(self) -> None:
        """Renew at a third of the lease, again and again; return once the job is lost."""
        pause = min(1.0, self._lease / 10)
        while self.seconds_left > 0 and not self._is_settled:
            due = self._sent_at + self._lease * RENEW_SHARE - time.monotonic()
            await asyncio.sleep(max(due, 0.0))
            try:
                await self.renew(None)
            except LeaseLost:
                break
            except (InterlockError, TimeoutError):
                await asyncio.sleep(min(pause, self.seconds_left))
        if not self._is_settled:
            self.lost.set()

    async def renew(self, checkpoint: Any) -> None:
        """Renew once. Raises `LeaseLost` if the job is not ours any more."""
        async with self._turn:
            left, sent_at = self.seconds_left, time.monotonic()
            if self._is_settled:
                return
            if left <= 0:
                raise self._gone()
            try:
                async with asyncio.timeout(left):
                    renewed = await self._client.renew(self.job.id, self.job.fence, checkpoint=checkpoint)
            except Conflict as conflict:
                if conflict.is_foreign:
                    raise
                raise self._gone() from conflict
            self._sent_at, self.permit = sent_at, renewed.permit

    async def settle(self, attempt: Callable[[], Awaitable[Job]]) -> Job:
        """Say how the work ended, while no renewal is under way: one behind it would come with a stale fence."""
        async with self._turn:
            job = await attempt()
            self._is_settled = True
            return job

    def renew_from_thread(self, checkpoint: Any) -> None:
        """The same, from a handler's thread."""
        asyncio.run_coroutine_threadsafe(self.renew(checkpoint), self._loop).result()

    def _gone(self) -> LeaseLost:
        self.lost.set()
        return LeaseLost(f"{self.job.id} is no longer held under fence {self.job.fence}; stop working on it")


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
        """True, and set, once the job is not ours any more; look at it before anything that cannot be undone."""
        return self._hold.lost

    @property
    def seconds_left(self) -> float:
        """How long the job is surely ours if no renewal succeeds."""
        return self._hold.seconds_left


class Work(_Work):
    """A job in a handler that is a plain function, on a thread of its own."""

    def checkpoint(self, value: Any) -> None:
        """Leave `value` for whoever does the next attempt. Raises `LeaseLost` if there is no use in it."""
        self._hold.renew_from_thread(value)


class AsyncWork(_Work):
    """A job in a handler that is a coroutine function. It is cancelled when the job is lost."""

    async def checkpoint(self, value: Any) -> None:
        """Leave `value` for whoever does the next attempt. Raises `LeaseLost` if there is no use in it."""
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
    """How a worker's hold on a job ended. `LOST`: somebody else has it, and nothing of ours was kept."""

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
            hold, lambda: client.complete(job.id, job.fence, result=result, key=_key(hold, "complete"))
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
        lambda: client.fail(job.id, job.fence, error=said, retryable=retryable, key=_key(hold, "fail")),
    )


async def settle_release(client: AsyncInterlock, hold: Hold) -> Settled:
    """Give the job back."""
    job = hold.job
    ended = await _settle(hold, lambda: client.release(job.id, job.fence, key=_key(hold, "release")))
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
