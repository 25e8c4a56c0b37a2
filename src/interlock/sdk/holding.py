"""Holding something leased (a slot, a resource) for the length of a block, renewed in the background.

The holder counts from when its last good request was *sent*, so it stops believing in the lease before the server
does. A block whose lease is lost goes on, because Python cannot be stopped from outside; `held.lost` tells, and
whatever it would write under the old fence is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from interlock.sdk.flow import Flow
from interlock.sdk.outcomes import InterlockError

T = TypeVar("T")
RunFlow = Callable[[Flow[Any]], Any]
RunFlowAsync = Callable[[Flow[Any]], Coroutine[Any, Any, Any]]

_RENEWALS_PER_LIFETIME = 3


class Verbs(Generic[T]):
    """How to acquire, renew and give back one thing; each makes a fresh flow."""

    def __init__(
        self,
        *,
        ttl_seconds: float,
        acquire: Callable[[], Flow[T]],
        renew: Callable[[T], Flow[T]],
        give_back: Callable[[T, BaseException | None], Flow[Any]],
    ) -> None:
        self.ttl_seconds = ttl_seconds
        self.acquire = acquire
        self.renew = renew
        self.give_back = give_back


class Held(Generic[T]):
    """What is held: `now` is its latest state, `fence` proves it to whoever asks."""

    def __init__(self, first: T, ttl_seconds: float, sent_at: float) -> None:
        self.now = first
        self._ttl_seconds = ttl_seconds
        self._sent_at = sent_at
        self._refused: InterlockError | None = None

    @property
    def fence(self) -> int:
        """The number to pass to whatever is written to."""
        return getattr(self.now, "fence")  # noqa: B009 - runs and leases both have one

    @property
    def lost(self) -> bool:
        """Whether it was refused, or its time has passed without a renewal."""
        return self._refused is not None or time.monotonic() >= self._sent_at + self._ttl_seconds

    def renewed(self, latest: T, sent_at: float) -> None:
        """Take in a good renewal."""
        self.now, self._sent_at = latest, sent_at

    def refuse(self, why: InterlockError) -> None:
        """Take in that it is somebody else's now."""
        self._refused = why


class Hold(Generic[T]):
    """`with` a blocking client: held inside the block, renewed by a thread, given back at the end."""

    def __init__(self, run: RunFlow, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._held: Held[T] | None = None

    def __enter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        sent_at = time.monotonic()
        self._held = Held(self._run(self._verbs.acquire()), self._verbs.ttl_seconds, sent_at)
        self._thread = threading.Thread(target=self._renew, args=(self._held,), daemon=True)
        self._thread.start()
        return self._held

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is not an error of the block."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._held:
            with contextlib.suppress(InterlockError):
                self._run(self._verbs.give_back(self._held.now, error))

    def _renew(self, held: Held[T]) -> None:
        while not self._stop.wait(self._verbs.ttl_seconds / _RENEWALS_PER_LIFETIME) and not held.lost:
            sent_at = time.monotonic()
            try:
                held.renewed(self._run(self._verbs.renew(held.now)), sent_at)
            except InterlockError as why:
                if _is_final(why):
                    held.refuse(why)
                    return


class AsyncHold(Generic[T]):
    """`async with` an async client: held inside the block, renewed by a task, given back at the end."""

    def __init__(self, run: RunFlowAsync, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._task: asyncio.Task[None] | None = None
        self._held: Held[T] | None = None

    async def __aenter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        sent_at = time.monotonic()
        self._held = Held(await self._run(self._verbs.acquire()), self._verbs.ttl_seconds, sent_at)
        self._task = asyncio.create_task(self._renew(self._held))
        return self._held

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is not an error of the block."""
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._held:
            with contextlib.suppress(InterlockError):
                await self._run(self._verbs.give_back(self._held.now, error))

    async def _renew(self, held: Held[T]) -> None:
        while not held.lost:
            await asyncio.sleep(self._verbs.ttl_seconds / _RENEWALS_PER_LIFETIME)
            sent_at = time.monotonic()
            try:
                held.renewed(await self._run(self._verbs.renew(held.now)), sent_at)
            except InterlockError as why:
                if _is_final(why):
                    held.refuse(why)
                    return


def _is_final(why: InterlockError) -> bool:
    """Whether trying again is pointless: the server answered, and said no."""
    from interlock.sdk.outcomes import Ambiguous, Busy, Full, Unavailable

    return not isinstance(why, Ambiguous | Busy | Full | Unavailable)
