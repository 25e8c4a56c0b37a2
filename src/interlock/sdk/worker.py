"""Workers: functions that are given approved jobs, one at a time each.

    worker = Worker("https://interlock.example.com", key=…)

    @worker.handler("finance.payment.*")
    def pay(work: Work) -> dict[str, str]:
        return {"receipt": bank.pay(work.payload, permit=work.permit)}

    worker.run()                      # until SIGTERM or Ctrl-C; jobs that were begun are finished

A handler's result completes the job. `Retryable` and `Final` say how it failed; any other error counts as retryable.
Leases are renewed meanwhile. A worker that loses a job reports nothing more about it: any report would be refused,
and another worker may have the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import random
import signal
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from interlock.kernel.hold import RENEWALS_A_LEASE
from interlock.rooms.policy.matching import topic_problem, topic_test
from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.calls import fresh_name
from interlock.sdk.client import Interlock
from interlock.sdk.outcomes import Ambiguous, Final, InterlockError
from interlock.sdk.worker_jobs import (
    REFUSALS,
    Hold,
    Settled,
    async_client,
    call_handler,
    calling,
    settle_failure,
    settle_release,
    settle_result,
)
from interlock.wire.jobs import HeldJob

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

WAIT_SECONDS_MAX = 5  # a worker that is told to stop waits for its claim under way: it may bring a job
TROUBLE_SECONDS = (0.5, 1.5)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Asking(NamedTuple):
    """One claim: its name, under which it can be repeated, and when it was sent first."""

    name: str
    most: int
    sent_at: float


class Worker:
    """Claims jobs and gives them to handlers, up to `concurrency` at a time."""

    def __init__(
        self,
        client: Interlock | AsyncInterlock | str | None = None,
        key: str | None = None,
        *,
        store: str | None = None,
        concurrency: int = 4,
        lease_seconds: int = 30,
        drain_seconds: float = 30.0,
        jobs_max: int | None = None,
        on_settled: Callable[[HeldJob, Settled], None] | None = None,
        make_store: bool = True,
    ) -> None:
        """`client` is a client or a URL; without one, `INTERLOCK_URL` or the embedded store, as for clients.

        `drain_seconds` is how long a worker that was told to stop lets its handlers finish. `jobs_max` ends
        it after that number of jobs. `on_settled` is told how each job ended.
        """
        if concurrency < 1 or lease_seconds < 1:
            raise ValueError("concurrency and lease_seconds must be at least 1")
        self._client = async_client(client, key, store, make_store=make_store)
        self._is_given = self._client is client
        self._concurrency = concurrency
        self._lease = lease_seconds
        self._drain_seconds = drain_seconds
        self._jobs_max = self._left = jobs_max
        self._on_settled = on_settled
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._unheard: _Asking | None = None
        self._is_troubled = False
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None

    def handler(self, *topics: str) -> Callable[[F], F]:
        """Give jobs of these topics (exact or globs) to a function. The first that matches is chosen."""
        for topic in topics:
            if (wrong := topic_problem(topic)) is not None:
                raise ValueError(wrong)

        def register(function: F) -> F:
            self._handlers.update(dict.fromkeys(topics, function))
            return function

        return register

    def run(self) -> None:
        """Work until SIGTERM, Ctrl-C or `stop()`; then finish what was begun. In a thread, only `stop()` ends it."""
        asyncio.run(self._serve_alone())

    async def _serve_alone(self) -> None:
        try:
            await self.serve(signals=True)
        finally:
            if self._client.url:
                await self._client.close()  # its connections of this loop, which ends here

    async def serve(self, *, signals: bool = False) -> None:
        """Work on the running event loop until `stop()`; with `signals`, until SIGTERM or Ctrl-C too.

        If it is cancelled, so are its handlers that are coroutines, and their jobs are given back.
        """
        if not self._handlers:
            raise ValueError("this worker has no handler; add one with @worker.handler(topic)")
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="interlock-work")
        try:
            with calling(self._stopping.set, SIGNALS if signals else ()):
                await self._claim_and_drain()
        finally:
            # It may be run again, on another loop.
            self._loop, self._stopping, self._left = None, asyncio.Event(), self._jobs_max
            self._threads.shutdown(wait=False, cancel_futures=True)
            if not self._is_given:
                await self._client.close()

    def stop(self) -> None:
        """Claim nothing more, and end when what was begun is done. Any thread may call it."""
        if self._loop is None:
            self._stopping.set()
            return
        # A loop that is closed has nothing left to stop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def _claim_and_drain(self) -> None:
        drain_seconds = 0.0  # for a worker that is cancelled, or may claim no more
        try:
            await self._claim_until_stopped()
            drain_seconds = self._drain_seconds
        finally:
            await self._drain(drain_seconds)

    async def _claim_until_stopped(self) -> None:
        while not self._stopping.is_set() and self._left != 0:
            free = self._concurrency - len(self._running)
            if free == 0:
                # A copy: what ends before the wait begins has left the set, and its slot would go unnoticed.
                begun = set(self._running)
                await self._anything(asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED))
                continue
            for job, sent_at in await self._claim(free if self._left is None else min(free, self._left)):
                self._begin(job, sent_at)

    async def _claim(self, most: int) -> list[tuple[HeldJob, float]]:
        """Jobs, each with when its claim was sent. Trouble that passes is waited out."""
        asking = self._asking(most)
        # Held no longer than the first renewal is away: the lease counts from when the claim was sent.
        wait = int(min(WAIT_SECONDS_MAX, self._lease / RENEWALS_A_LEASE))
        try:
            jobs = await self._client.claim_jobs(
                tuple(self._handlers),
                max=asking.most,
                lease_seconds=self._lease,
                wait_seconds=wait,
                key=asking.name,
            )
        except InterlockError as trouble:
            if isinstance(trouble, REFUSALS) and not trouble.is_foreign:
                raise
            self._unheard = asking if isinstance(trouble, Ambiguous) or asking is self._unheard else None
            self._tell(trouble)
            await self._anything(asyncio.sleep(random.uniform(*TROUBLE_SECONDS)))
            return []
        self._unheard = None
        self._tell(None)
        if not jobs and wait == 0:
            await self._anything(asyncio.sleep(random.uniform(0.2, 0.5)))
        return [(job, asking.sent_at) for job in jobs]

    def _asking(self, most: int) -> _Asking:
        """What to claim. A claim whose answer was lost is repeated: this worker may hold its jobs."""
        unheard, now = self._unheard, time.monotonic()
        if unheard is not None and now < unheard.sent_at + self._lease / RENEWALS_A_LEASE:
            return unheard
        return _Asking(name=fresh_name(), most=min(most, 100), sent_at=now)

    def _tell(self, trouble: InterlockError | None) -> None:
        """Say when claiming begins to fail and when it works again, not each time in between."""
        if trouble is not None and not self._is_troubled:
            log.warning("cannot claim work: %s; trying until it works", trouble)
        elif trouble is None and self._is_troubled:
            log.warning("claiming work again")
        self._is_troubled = trouble is not None

    async def _anything(self, awaited: Awaitable[Any]) -> None:
        """Wait for this, or for being told to stop."""
        tasks = {asyncio.ensure_future(awaited), asyncio.ensure_future(self._stopping.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _begin(self, job: HeldJob, sent_at: float) -> None:
        if self._left is not None:
            self._left -= 1
        hold = Hold(self._client, job, sent_at=sent_at, lease_seconds=self._lease)
        task = asyncio.get_running_loop().create_task(self._work(hold), name=f"work on {job.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _work(self, hold: Hold) -> None:
        settled = await self._kept(hold) if await hold.is_ours() else Settled.LOST
        log.info("%s %s (attempt %d)", hold.job.id, settled.value, hold.job.attempt)
        if self._on_settled is not None:
            self._on_settled(hold.job, settled)

    async def _kept(self, hold: Hold) -> Settled:
        keeping = asyncio.create_task(hold.keep())
        try:
            return await self._settled(hold, keeping)
        finally:
            keeping.cancel()

    async def _settled(self, hold: Hold, keeping: asyncio.Task[None]) -> Settled:
        if self._stopping.is_set():
            return await settle_release(self._client, hold)
        try:
            function = self._handler_of(hold.job.topic)
            result = await call_handler(function, hold, keeping=keeping, threads=self._threads)
        except asyncio.CancelledError:
            if hold.lost.is_set():
                return Settled.LOST
            # Told to stop, and out of time. A coroutine has ended, so another worker may have its job; a
            # thread goes on until the process ends, so its job stays its own until the lease runs out.
            if inspect.iscoroutinefunction(self._handler_of(hold.job.topic)):
                with contextlib.suppress(InterlockError):
                    await settle_release(self._client, hold)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is how its job failed
            return await settle_failure(self._client, hold, error)
        return await settle_result(self._client, hold, result)

    def _handler_of(self, topic: str) -> Callable[..., Any]:
        for pattern, function in self._handlers.items():
            if topic_test(pattern)(topic):
                return function
        raise Final(f"this worker has no handler for {topic}")

    async def _drain(self, seconds: float) -> None:
        """Let handlers finish; those that outlast the time are cancelled, and their jobs given back."""
        try:
            if self._running and seconds > 0:
                await asyncio.wait(self._running, timeout=seconds)
        finally:
            for task in list(self._running):
                task.cancel()
            if self._running:
                await asyncio.wait(self._running, timeout=WAIT_SECONDS_MAX)
