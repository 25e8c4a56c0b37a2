"""Holding something leased (a slot, a resource) for the length of a block, renewed in the background.

The holder counts from when its last good request was *sent*, so it stops believing in the lease before the server
does. A block whose lease is lost goes on, because Python cannot be stopped from outside; `held.lost` tells, and
whatever it would write under the old fence is refused.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from interlock.sdk.flow import Flow, settled, taken
from interlock.sdk.operations import admission, leases
from interlock.sdk.outcomes import InterlockError
from interlock.sdk.session import Session
from interlock.wire.admission import Run
from interlock.wire.leases import Lease

if TYPE_CHECKING:
    import asyncio


T = TypeVar("T")


class Verbs(Generic[T]):
    """How to acquire (`waits`: perhaps in line), renew and give back one thing; each makes a fresh flow."""

    def __init__(
        self,
        *,
        ttl_seconds: float,
        waits: bool,
        acquire: Callable[[], Flow[T]],
        renew: Callable[[T], Flow[T]],
        give_back: Callable[[T, BaseException | None], Flow[Any]],
    ) -> None:
        self.ttl_seconds = ttl_seconds
        self.waits = waits
        self.acquire = acquire
        self.renew = renew
        self.give_back = give_back

    def acquired(self) -> Flow[T]:
        """Acquire. Who is cancelled meanwhile gives it back, unless it stands in line: it would wait on for nothing."""
        return self.acquire() if self.waits else taken(self.acquire(), self.give_back)


def admit(
    client: Session,
    workflow: str,
    *,
    ttl: float = 60,
    wait: float = 0,
    input: Any = None,  # noqa: A002 - the API's own word
    key: str | None = None,
) -> Verbs[Run]:
    """`with il.admit("nightly-report") as run:` holds a slot for the block, renewed in the background.

    Raises `Full` when there is no room. The run is completed at the end, or failed if the block raises. `key` names
    the intent: after a crash the same run is held again, and `Conflict` raised if it is over or lost.
    """

    def acquire() -> Flow[Run]:
        run = yield from admission.start_run(
            client, workflow, input=input, ttl_seconds=ttl, wait_seconds=wait, key=key
        )
        if run.replayed:
            # That it was started once says nothing of now: it may have ended, and its slot be another's.
            run = yield from admission.renew_run(client, run.run_id, run.fence)
        return run

    def give_back(run: Run, error: BaseException | None) -> Flow[Any]:
        if error is None:
            return admission.complete_run(client, run.run_id, run.fence)
        return admission.fail_run(client, run.run_id, run.fence, error=type(error).__name__)

    return Verbs(
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=acquire,
        renew=lambda run: admission.renew_run(client, run.run_id, run.fence),
        give_back=give_back,
    )


def lease(
    client: Session,
    resource: str,
    *,
    ttl: float = 60,
    wait: float = 0,
    purpose: str = "",
    mode: Literal["exclusive", "shared"] = "exclusive",
    session: str = "",
) -> Verbs[Lease]:
    """`with il.lease("repo:billing/invoice.py") as held:` owns a resource for the block, whatever happens in it.

    Raises `Busy`, naming the holder, when it is taken. `held.predecessor` has the last checkpoint.
    """
    return Verbs(
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=lambda: leases.acquire_lease(
            client,
            resource,
            purpose=purpose,
            mode=mode,
            ttl_seconds=ttl,
            wait_seconds=wait,
            as_session=session,
        ),
        renew=lambda held: leases.renew_lease(client, held.lease_id, held.fence, as_session=session),
        give_back=lambda held, error: leases.release_lease(
            client, held.lease_id, held.fence, as_session=session
        ),
    )


RunFlow = Callable[[Flow[Any]], Any]
RunFlowAsync = Callable[[Flow[Any]], Coroutine[Any, Any, Any]]
Renew: TypeAlias = Callable[[T], Flow[T]]

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


class Renewals(Generic[T]):
    """Renews what is held from a thread, until it is lost or `stop` is called."""

    def __init__(self, run: RunFlow, held: Held[T], renew: Renew[T]) -> None:
        self._run, self._held, self._renew = run, held, renew
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew_on, name="interlock-hold", daemon=True)

    def start(self) -> None:
        """Begin. What took long to acquire is renewed at once; raises if it is lost already."""
        if self._held.is_due:
            self._renew_once()
            self._held.check_not_refused()
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. One that is still trying is not waited for long; its answer no longer matters."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def _renew_on(self) -> None:
        while not self._over.wait(self._held.rest_seconds) and not self._held.lost:
            self._renew_once()

    def _renew_once(self) -> None:
        sent_at = time.monotonic()
        try:
            self._held.renewed(self._run(self._renew(self._held.now)), sent_at)
        except InterlockError as why:
            self._held.note(why)


class AsyncRenewals(Generic[T]):
    """Renews what is held from a task, until it is lost or `stop` is called."""

    def __init__(self, run: RunFlowAsync, held: Held[T], renew: Renew[T]) -> None:
        self._run, self._held, self._renew = run, held, renew
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin. What took long to acquire is renewed at once; raises if it is lost already."""
        import asyncio  # whoever is here has it; a blocking client starts without it

        if self._held.is_due:
            await self._renew_once()
            self._held.check_not_refused()
        self._task = asyncio.create_task(self._renew_on())

    def stop(self) -> None:
        """Renew no more."""
        if self._task:
            self._task.cancel()

    async def _renew_on(self) -> None:
        import asyncio

        while not self._held.lost:
            await asyncio.sleep(self._held.rest_seconds)
            await self._renew_once()

    async def _renew_once(self) -> None:
        sent_at = time.monotonic()
        try:
            self._held.renewed(await self._run(self._renew(self._held.now)), sent_at)
        except InterlockError as why:
            self._held.note(why)


class Hold(Generic[T]):
    """`with` a blocking client: held inside the block, renewed by a thread, given back at the end."""

    def __init__(self, run: RunFlow, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: Renewals[T] | None = None
        self._held: Held[T] | None = None

    def __enter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        sent_at = time.monotonic()
        self._held = held = Held(self._run(self._verbs.acquired()), self._verbs.ttl_seconds, sent_at)
        self._renewals = Renewals(self._run, held, self._verbs.renew)
        self._renewals.start()
        return held

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is told by `lost`, and is not an error of the block."""
        if sys.is_finalizing():
            return  # in a generator that is left over; threads stand still by now, and the lease runs out
        if self._renewals:
            self._renewals.stop()
        if self._held:
            try:
                self._run(self._verbs.give_back(self._held.now, error))
            except InterlockError as why:
                self._held.note(why)


class AsyncHold(Generic[T]):
    """`async with` an async client: held inside the block, renewed by a task, given back at the end."""

    def __init__(self, run: RunFlowAsync, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: AsyncRenewals[T] | None = None
        self._held: Held[T] | None = None

    async def __aenter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        import asyncio

        sent_at = time.monotonic()
        first = await self._run(self._verbs.acquired())
        self._held = held = Held(first, self._verbs.ttl_seconds, sent_at)
        self._renewals = AsyncRenewals(self._run, held, self._verbs.renew)
        try:
            await self._renewals.start()
        except asyncio.CancelledError as cancelled:
            await self._give_back(first, cancelled)
            raise
        return held

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is told by `lost`, and is not an error of the block."""
        if self._renewals:
            self._renewals.stop()
        if self._held:
            try:
                await self._give_back(self._held.now, error)
            except InterlockError as why:
                self._held.note(why)

    async def _give_back(self, latest: T, error: BaseException | None) -> None:
        await self._run(settled(self._verbs.give_back(latest, error)))


def _is_final(why: InterlockError) -> bool:
    """Whether trying again is pointless: the service answered, and said no."""
    from interlock.sdk.outcomes import Ambiguous, Busy, Full, Unavailable, UnexpectedAnswer

    return not (why.is_foreign or isinstance(why, Ambiguous | Busy | Full | Unavailable | UnexpectedAnswer))
