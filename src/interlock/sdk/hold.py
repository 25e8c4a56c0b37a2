"""Holds a lease (a slot, a resource) for the length of a block, and renews it in the background.

`kernel/hold.py` decides when to renew and when the lease is lost. A block whose lease is lost goes on, because Python
cannot stop it from outside; `held.lost` says so, and its writes under the old fence are refused.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from interlock.kernel.hold import HoldState, RenewalTask, RenewalThread
from interlock.sdk.flow import Flow, settled, taken
from interlock.sdk.operations import admission, leases
from interlock.sdk.outcomes import (
    Ambiguous,
    Busy,
    Full,
    InterlockError,
    InvalidRequest,
    Unavailable,
    UnexpectedAnswer,
)
from interlock.sdk.session import Session
from interlock.wire.admission import Run
from interlock.wire.leases import Lease

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
RunFlowAsync = Callable[[Flow[Any]], Awaitable[Any]]
Renew: TypeAlias = Callable[[T], Flow[T]]


class Held(Generic[T]):
    """What is held: `now` is its latest state, `fence` proves it to the resource.

    What the state has can be asked of this directly: `run.run_id`, `lease.lease_id`, `lease.predecessor`.
    """

    def __init__(self, first: T, ttl_seconds: float, sent_at: float) -> None:
        self.now = first
        # A tenant may grant less than was asked for; what was granted counts.
        granted = min(ttl_seconds, getattr(first, "ttl_seconds", ttl_seconds))
        self.hold = HoldState(granted, sent_at, is_final=is_final)

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
        return self.hold.is_lost


def renewals(run: RunFlow, held: Held[T], renew: Renew[T]) -> RenewalThread:
    """Renews what is held from a thread."""

    def renew_now() -> None:
        held.now = run(renew(held.now))

    return RenewalThread(held.hold, renew_now)


def renewals_in_loop(run: RunFlowAsync, held: Held[T], renew: Renew[T]) -> RenewalTask:
    """Renews what is held from a task."""

    async def renew_now() -> None:
        held.now = await run(renew(held.now))

    return RenewalTask(held.hold, renew_now)


class Hold(Generic[T]):
    """`with` a blocking client: held inside the block, renewed by a thread, given back at the end."""

    def __init__(self, run: RunFlow, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: RenewalThread | None = None
        self._held: Held[T] | None = None

    def __enter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        sent_at = time.monotonic()
        self._held = held = Held(self._run(self._verbs.acquired()), self._verbs.ttl_seconds, sent_at)
        self._renewals = renewals(self._run, held, self._verbs.renew)
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
                self._held.hold.failed(why)


class AsyncHold(Generic[T]):
    """`async with` an async client: held inside the block, renewed by a task, given back at the end."""

    def __init__(self, run: RunFlowAsync, verbs: Verbs[T]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: RenewalTask | None = None
        self._held: Held[T] | None = None

    async def __aenter__(self) -> Held[T]:
        """Acquire it, or raise why not."""
        import asyncio

        sent_at = time.monotonic()
        first = await self._run(self._verbs.acquired())
        self._held = held = Held(first, self._verbs.ttl_seconds, sent_at)
        self._renewals = renewals_in_loop(self._run, held, self._verbs.renew)
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
                self._held.hold.failed(why)

    async def _give_back(self, latest: T, error: BaseException | None) -> None:
        await self._run(settled(self._verbs.give_back(latest, error)))


def is_final(why: Exception) -> bool:
    """Whether the service refused a renewal for good. To call it invalid (a checkpoint) says nothing of the hold."""
    passing = Ambiguous | Busy | Full | InvalidRequest | Unavailable | UnexpectedAnswer
    return isinstance(why, InterlockError) and not (why.is_foreign or isinstance(why, passing))
