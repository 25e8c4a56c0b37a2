"""Holding something leased (a slot, a resource) for the length of a block, renewed in the background.

The holder counts from when its last good request was *sent*, so it stops believing in the lease before the server
does. A block whose lease is lost goes on, because Python cannot be stopped from outside; `held.lost` tells, and
whatever it would write under the old fence is refused.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.sdk.flow import Flow, settled
from interlock.sdk.outcomes import InterlockError

if TYPE_CHECKING:
    from interlock.sdk.holds import Verbs

T = TypeVar("T")
RunFlow = Callable[[Flow[Any]], Any]
RunFlowAsync = Callable[[Flow[Any]], Coroutine[Any, Any, Any]]

_RENEWALS_PER_LIFETIME = 3
_TRIES_PER_LIFETIME, _REST_SECONDS_MOST = 10, 1.0
_JOIN_SECONDS = 5.0


class Held(Generic[T]):
    """What is held: `now` is its latest state, `fence` proves it to whoever asks.

    What the state has can be asked of this directly: `run.run_id`, `lease.lease_id`, `lease.predecessor`.
    """

    def __init__(self, first: T, ttl_seconds: float, sent_at: float) -> None:
        self.now = first
        # A tenant may grant less than was asked for; what was granted counts.
        self._ttl_seconds = min(ttl_seconds, getattr(first, "ttl_seconds", ttl_seconds))
        self._sent_at = sent_at
        self._refused: InterlockError | None = None
        self._has_failed = False

    def __getattr__(self, name: str) -> Any:
        """A field of the latest state."""
        # A copy under construction has no state yet; asking it for one would never end.
        if name == "now" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.now, name)

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
        self.now, self._sent_at, self._has_failed = latest, sent_at, False

    def note(self, why: InterlockError) -> None:
        """Take in a call that ended badly: a final no means that it is somebody else's now."""
        self._has_failed = True
        if _is_final(why):
            self._refused = why

    def check_not_refused(self) -> None:
        """Raise why it was refused, if it was."""
        if self._refused is not None:
            raise self._refused

    @property
    def renewal_seconds(self) -> float:
        """How long to wait between two renewals."""
        return self._ttl_seconds / _RENEWALS_PER_LIFETIME

    @property
    def rest_seconds(self) -> float:
        """How long to wait now: after one that failed not long, for the service may be back before the time is up."""
        if self._has_failed:
            return min(self._ttl_seconds / _TRIES_PER_LIFETIME, _REST_SECONDS_MOST)
        return self.renewal_seconds

    @property
    def is_due(self) -> bool:
        """Whether acquiring took so long (in line, or over retries) that only a renewal tells since when it is held."""
        return time.monotonic() >= self._sent_at + self.renewal_seconds


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
        self._held = held = Held(self._run(self._verbs.acquired()), self._verbs.ttl_seconds, sent_at)
        if held.is_due:
            self._renew_once(held)
            held.check_not_refused()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, args=(held, self._stop), daemon=True)
        self._thread.start()
        return held

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is told by `lost`, and is not an error of the block."""
        if sys.is_finalizing():
            return  # in a generator that is left over; threads stand still by now, and the lease runs out
        self._stop.set()
        if self._thread:
            # A renewal that is still trying is not waited for longer than this; its answer no longer matters.
            self._thread.join(_JOIN_SECONDS)
        if self._held:
            try:
                self._run(self._verbs.give_back(self._held.now, error))
            except InterlockError as why:
                self._held.note(why)

    def _renew(self, held: Held[T], stop: threading.Event) -> None:
        while not stop.wait(held.rest_seconds) and not held.lost:
            self._renew_once(held)

    def _renew_once(self, held: Held[T]) -> None:
        sent_at = time.monotonic()
        try:
            held.renewed(self._run(self._verbs.renew(held.now)), sent_at)
        except InterlockError as why:
            held.note(why)


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
        first = await self._run(self._verbs.acquired())
        self._held = held = Held(first, self._verbs.ttl_seconds, sent_at)
        if held.is_due:
            try:
                await self._renew_once(held)
            except asyncio.CancelledError as cancelled:
                await self._give_back(first, cancelled)
                raise
            held.check_not_refused()
        self._task = asyncio.create_task(self._renew(held))
        return held

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is told by `lost`, and is not an error of the block."""
        if self._task:
            self._task.cancel()
        if self._held:
            try:
                await self._give_back(self._held.now, error)
            except InterlockError as why:
                self._held.note(why)

    async def _give_back(self, latest: T, error: BaseException | None) -> None:
        await self._run(settled(self._verbs.give_back(latest, error)))

    async def _renew(self, held: Held[T]) -> None:
        while not held.lost:
            await asyncio.sleep(held.rest_seconds)
            await self._renew_once(held)

    async def _renew_once(self, held: Held[T]) -> None:
        sent_at = time.monotonic()
        try:
            held.renewed(await self._run(self._verbs.renew(held.now)), sent_at)
        except InterlockError as why:
            held.note(why)


def _is_final(why: InterlockError) -> bool:
    """Whether trying again is pointless: the service answered, and said no."""
    from interlock.sdk.outcomes import Ambiguous, Busy, Full, Unavailable, UnexpectedAnswer

    return not (why.is_foreign or isinstance(why, Ambiguous | Busy | Full | Unavailable | UnexpectedAnswer))
