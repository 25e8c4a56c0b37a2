"""A job in the hands of a worker, as its handler sees it; and the hold on it that is kept meanwhile.

Whether the job is still ours is judged by our own clock, from the moment the last successful renewal was
*sent*: the service counted from some later moment, so we stop before anybody else can begin.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from interlock.sdk.outcomes import Conflict, InterlockError
from interlock.sdk.worker_errors import LeaseLost

if TYPE_CHECKING:
    from interlock.sdk.async_client import AsyncInterlock
    from interlock.sdk.models import HeldJob, Job

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
