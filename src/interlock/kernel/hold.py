"""One hold: renew it in time, lose it by one's own clock, tell, stop.

Everything that is held for a while and renewed is kept by this file: leases, slots, jobs of workers, gated calls, jobs
of `interlock exec`, and the relays of a server. `HoldState` decides and does no I/O; `RenewalThread`, `RenewalTask` and
`keep` renew when it says so, from a thread or on an event loop.

A holder counts from when its last confirmed request was *sent*. The service counted from a later moment, so the holder
stops believing in its hold before another holder can have it. A refused renewal loses the hold at once. One without an
answer is tried again soon, until the lease has run out. What is lost stays lost.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

RENEWALS_A_LEASE = 3
_TRIES_A_LEASE, _RETRY_SECONDS_MAX = 10, 1.0
_JOIN_SECONDS = 5.0


def _tell_nobody() -> None:
    pass


class HoldState:
    """A holder's knowledge of its hold. Times are of `time.monotonic`; any thread may ask.

    `is_final` tells a refusal from trouble that may pass. `on_lost` is called once, when the hold is found lost.
    A holder that gave it back sets `is_settled`: there is nothing more to renew or to lose.
    """

    def __init__(
        self,
        lease_seconds: float,
        sent_at: float,
        *,
        is_final: Callable[[Exception], bool],
        on_lost: Callable[[], object] = _tell_nobody,
    ) -> None:
        self.lease_seconds = lease_seconds
        self.refusal: Exception | None = None
        self.is_settled = False
        self._sent_at = sent_at
        self._is_final, self._on_lost = is_final, on_lost
        self._has_failed = self._is_lost = False
        self._tellings = itertools.count()

    @property
    def seconds_left(self) -> float:
        """How long it is certainly held if no renewal succeeds."""
        if self._is_lost or self.refusal is not None:
            return 0.0
        return max(0.0, self._sent_at + self.lease_seconds - time.monotonic())

    @property
    def is_lost(self) -> bool:
        """Whether a renewal was refused, or the lease ran out before one was confirmed. No late answer changes it."""
        self._lose_if_over()
        return self._is_lost

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to renew: it is lost, or was given back."""
        return self.is_settled or self.is_lost

    @property
    def is_due(self) -> bool:
        """Whether it is time for a renewal. If so right after acquiring, only a renewal tells since when it is held."""
        return self._seconds_until_due <= 0

    @property
    def rest_seconds(self) -> float:
        """How long to wait before the next renewal: not long after one that failed, and never beyond the lease."""
        if self._has_failed:
            rest = min(self.lease_seconds / _TRIES_A_LEASE, _RETRY_SECONDS_MAX)
        else:
            rest = max(0.0, self._seconds_until_due)
        return min(rest, self.seconds_left)

    @contextlib.contextmanager
    def renewal(self) -> Generator[None]:
        """One renewal, or another call that renews: counted from when it is sent, judged by how it ends."""
        sent_at = time.monotonic()
        try:
            yield
        except Exception as why:
            self.failed(why)
            raise
        # Two may be under way at once, and their answers may cross.
        self._sent_at, self._has_failed = max(self._sent_at, sent_at), False

    def failed(self, why: Exception) -> None:
        """Note a call that failed."""
        self._has_failed = True
        if self._is_final(why):
            self.refusal = self.refusal or why
            self._lose_if_over()

    def _lose_if_over(self) -> None:
        if not (self.is_settled or self._is_lost) and self.seconds_left <= 0:
            self._is_lost = True
            # Two threads may find it lost at once; a count gives each number to one of them.
            if next(self._tellings) == 0:
                self._on_lost()

    @property
    def _seconds_until_due(self) -> float:
        interval = self.lease_seconds / RENEWALS_A_LEASE
        # Never longer than one interval, whatever the clock says: the service's own clock decides in the end.
        return min(self._sent_at + interval - time.monotonic(), interval)


class RenewalThread:
    """Renews from a thread until the hold is over, or until `stop`. Also a `with` block."""

    def __init__(self, state: HoldState, renew: Callable[[], object]) -> None:
        self._state, self._renew = state, renew
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="interlock-hold", daemon=True)

    def start(self) -> None:
        """Begin. What took long to acquire is renewed first; raises the refusal if that is refused."""
        if self._state.is_due:
            self._renew_once()
            if self._state.refusal is not None:
                raise self._state.refusal
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. A renewal that is under way is not waited for long; its answer no longer matters."""
        self._stopping.set()
        # While the interpreter ends, other threads do not run, so waiting for one would never end.
        if self._thread.is_alive() and not sys.is_finalizing():
            self._thread.join(_JOIN_SECONDS)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keep(self) -> None:
        while not self._stopping.wait(self._state.rest_seconds) and not self._state.is_over:
            self._renew_once()

    def _renew_once(self) -> None:
        with _noted(), self._state.renewal():
            self._renew()


class RenewalTask:
    """As `RenewalThread`, from a task of the running event loop."""

    def __init__(self, state: HoldState, renew: Callable[[], Awaitable[object]]) -> None:
        self._state, self._renew = state, renew
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin. What took long to acquire is renewed first; raises the refusal if that is refused."""
        import asyncio  # a program that does without an event loop does not pay for it

        if self._state.is_due:
            with _noted(), self._state.renewal():
                await self._renew()
            if self._state.refusal is not None:
                raise self._state.refusal
        self._task = asyncio.create_task(keep(self._state, self._renew), name="interlock-hold")

    def stop(self) -> None:
        """Renew no more; a renewal that is under way is cancelled."""
        if self._task:
            self._task.cancel()

    async def __aenter__(self) -> None:
        await self.start()

    async def __aexit__(self, *_: object) -> None:
        self.stop()


async def keep(state: HoldState, renew: Callable[[], Awaitable[object]]) -> None:
    """Renew on this event loop; return once the hold is over. Nothing that hangs keeps it from being found lost."""
    import asyncio

    while not state.is_over:
        await asyncio.sleep(state.rest_seconds)
        if not state.is_over:
            with _noted(), state.renewal():
                async with asyncio.timeout(state.seconds_left):
                    await renew()


@contextlib.contextmanager
def _noted() -> Generator[None]:
    """Ignore the exception of a renewal: it was judged already, and the end of the lease shows whether it matters."""
    try:
        yield
    except Exception as why:  # noqa: BLE001 - not even a bug may end the loop while there is time left
        log.info("a renewal failed: %s: %s", type(why).__name__, why)
