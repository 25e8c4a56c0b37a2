"""Keeping a hold: renew it in time, lose it by one's own clock, tell, stop.

Everything that is held for a while and renewed is kept by this code: leases, slots, jobs of workers, gated calls,
commands of `interlock exec`, and the relays of a server. `HoldState` decides and does no I/O; `RenewalThread` and
`keep` renew when it says so, from a thread or on an event loop.

A holder counts from when its last confirmed request was *sent*. The service counted from a later moment, so the holder
stops believing in its hold before anybody else can have it. A renewal that is refused loses the hold at once; one
that gets no answer is tried again, until the lease has run out.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator

log = logging.getLogger(__name__)

_RENEWALS_A_LEASE = 3
_TRIES_A_LEASE, _RETRY_SECONDS_MAX = 10, 1.0
_JOIN_SECONDS = 5.0


def _tell_nobody() -> None:
    pass


class HoldState:
    """What a holder knows of its hold. Times are seconds of its own clock, which never goes back.

    `is_final` tells a refusal from trouble that may pass; `on_lost` is called once, when the hold is found lost.
    """

    def __init__(
        self,
        lease_seconds: float,
        sent_at: float,
        *,
        is_final: Callable[[Exception], bool],
        on_lost: Callable[[], object] = _tell_nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_seconds = lease_seconds
        self.refusal: Exception | None = None
        self._sent_at = sent_at
        self._is_final, self._on_lost, self._clock = is_final, on_lost, clock
        self._has_failed = self._is_told = self._is_settled = False

    @property
    def seconds_left(self) -> float:
        """How long it is surely held if no renewal succeeds."""
        if self._is_told or self.refusal is not None:
            return 0.0
        return max(0.0, self._sent_at + self.lease_seconds - self._clock())

    @property
    def is_lost(self) -> bool:
        """Whether a renewal was refused, or the lease has run out without one that was confirmed."""
        return self.seconds_left <= 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to renew: it is lost, or was given back."""
        return self._is_settled or self.is_lost

    @property
    def is_due(self) -> bool:
        """Whether it is time for a renewal. Right after acquiring: only a renewal tells since when it is held."""
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
        sent_at = self._clock()
        try:
            yield
        except Exception as why:
            self.failed(why)
            raise
        # Two may be under way at once, and their answers may cross.
        self._sent_at, self._has_failed = max(self._sent_at, sent_at), False

    def failed(self, why: Exception) -> None:
        """Take in a call that ended badly."""
        self._has_failed = True
        if self._is_final(why):
            self.refusal = self.refusal or why
            self.tell_if_lost()

    def settle(self) -> None:
        """It was given back: there is nothing more to renew or to lose."""
        self._is_settled = True

    def tell_if_lost(self) -> None:
        """Call `on_lost` if it is lost and nobody was told. From then on no late answer brings it back."""
        if self.is_lost and not (self._is_told or self._is_settled):
            self._is_told = True
            self._on_lost()

    @property
    def _seconds_until_due(self) -> float:
        interval = self.lease_seconds / _RENEWALS_A_LEASE
        # Never longer than one interval, whatever the clock says: the service's own clock decides in the end.
        return min(self._sent_at + interval - self._clock(), interval)


class RenewalThread:
    """Renews from a thread until the hold is over, or until `stop`. Also a `with` block."""

    def __init__(self, state: HoldState, renew: Callable[[], object]) -> None:
        self._state, self._renew = state, renew
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="interlock-hold", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. A renewal that is under way is not waited for long; its answer no longer matters."""
        self._stopping.set()
        # At the end of the interpreter all other threads stand still, and to wait for one would be in vain.
        if self._thread.is_alive() and not sys.is_finalizing():
            self._thread.join(_JOIN_SECONDS)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keep(self) -> None:
        state = self._state
        while not self._stopping.wait(state.rest_seconds) and not state.is_over:
            with _trouble_noted(), state.renewal():
                self._renew()
        if not self._stopping.is_set():
            state.tell_if_lost()


async def keep(state: HoldState, renew: Callable[[], Awaitable[object]]) -> None:
    """Renew on this event loop; return once the hold is over. Run it as a task, and cancel that to stop."""
    import asyncio  # whoever is here has it; a blocking client starts without it

    while not state.is_over:
        await asyncio.sleep(state.rest_seconds)
        if not state.is_over:
            with _trouble_noted(), state.renewal():
                async with asyncio.timeout(state.seconds_left):
                    await renew()
    state.tell_if_lost()


@contextlib.contextmanager
def _trouble_noted() -> Generator[None]:
    """What a renewal raised was judged already; whether it matters is seen when the lease runs out."""
    try:
        yield
    except Exception as why:  # noqa: BLE001 - not even a bug may end the loop while there is time left
        log.debug("a renewal failed: %s", why, exc_info=why)
