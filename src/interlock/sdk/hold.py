"""Holds a lease (a slot, a resource) for the length of a block, and renews it in the background.

`kernel/hold.py` decides when to renew and when the lease is lost; `held.py` has what the block is given.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from interlock.kernel.hold import RenewalTask, RenewalThread
from interlock.sdk.flow import Flow, settled, taken
from interlock.sdk.held import (
    AsyncHeldLease,
    AsyncHeldRun,
    AwaitingHeld,
    BlockingHeld,
    HeldLease,
    HeldRun,
    RunFlow,
    RunFlowAsync,
    Timed,
)
from interlock.sdk.operations import admission, leases
from interlock.sdk.outcomes import InterlockError
from interlock.sdk.session import Session
from interlock.wire.admission import Run
from interlock.wire.leases import Lease

T = TypeVar("T", bound=Timed)
H = TypeVar("H", bound=BlockingHeld[Any])
A = TypeVar("A", bound=AwaitingHeld[Any])


class Verbs(Generic[T, H, A]):
    """How to acquire (`waits`: perhaps in line), renew and give back one thing; each makes a fresh flow.

    `held` and `held_async` are what a block of either client is given.
    """

    def __init__(
        self,
        client: Session,
        *,
        ttl_seconds: float,
        waits: bool,
        acquire: Callable[[], Flow[T]],
        renew: Callable[[T], Flow[T]],
        give_back: Callable[[T, BaseException | None], Flow[Any]],
        held: Callable[[RunFlow, Session, T, float, float], H],
        held_async: Callable[[RunFlowAsync, Session, T, float, float], A],
    ) -> None:
        self.client = client
        self.ttl_seconds = ttl_seconds
        self.waits = waits
        self.acquire = acquire
        self.renew = renew
        self.give_back = give_back
        self.held = held
        self.held_async = held_async

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
) -> Verbs[Run, HeldRun, AsyncHeldRun]:
    """Hold a slot of a workflow for a block, renewed in the background.

        with il.admit("nightly-report", wait=30) as run:
            write_report(fence=run.fence)

    Raises `Full` when there is no room (or none within `wait` seconds), `Unavailable` when that could not be found out.
    The run is completed at the end of the block (or before it, by `run.complete(result)`), and failed if the block
    raises. A run that is not renewed for `ttl` seconds loses its slot; `run.lost` says so. `key` names the intent:
    after a crash the same run is held again, and `Conflict` raised if it is over or lost.
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
        client,
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=acquire,
        renew=lambda run: admission.renew_run(client, run.run_id, run.fence),
        give_back=give_back,
        held=HeldRun,
        held_async=AsyncHeldRun,
    )


def lease(
    client: Session,
    resource: str,
    *,
    ttl: float = 60,
    wait: float = 0,
    purpose: str = "",
    mode: Literal["exclusive", "shared"] = "exclusive",
    session: str | None = None,
) -> Verbs[Lease, HeldLease, AsyncHeldLease]:
    """Own a resource for a block, renewed in the background.

        with il.lease("repo:billing/invoice.py", purpose="rename a field") as held:
            edit_the_file()
            held.checkpoint(done=["renamed"])

    A resource that ends in `/**` is everything under it. Raises `Busy`, naming the holder, while another owner has it
    (`wait`: how many seconds to wait in line). `held.predecessor` has the last owner's checkpoint. The lease is renewed
    as long as the block runs; `held.lost` says that it is not held any more. `session` tells apart several workers
    of one principal (default: that of the client): only the same session may use the lease.
    """
    return Verbs(
        client,
        ttl_seconds=ttl,
        waits=wait > 0,
        acquire=lambda: leases.acquire_lease(
            client,
            resource,
            purpose=purpose,
            mode=mode,
            ttl_seconds=ttl,
            wait_seconds=wait,
            session=session,
        ),
        renew=lambda held: leases.renew_lease(client, held.lease_id, held.fence, session=held.session),
        give_back=lambda held, error: leases.release_lease(
            client, held.lease_id, held.fence, session=held.session
        ),
        held=HeldLease,
        held_async=AsyncHeldLease,
    )


class Hold(Generic[H]):
    """`with` a blocking client: held inside the block, renewed by a thread, given back at the end."""

    def __init__(self, run: RunFlow, verbs: Verbs[Any, H, Any]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: RenewalThread | None = None
        self._held: H | None = None

    def __enter__(self) -> H:
        """Acquire it, or raise why not."""
        sent_at, verbs = time.monotonic(), self._verbs
        first = self._run(verbs.acquired())
        self._held = held = verbs.held(self._run, verbs.client, first, verbs.ttl_seconds, sent_at)

        def renew_now() -> None:
            with held.turn:
                if not held.hold.is_settled:
                    held.now = self._run(verbs.renew(held.now))

        self._renewals = RenewalThread(held.hold, renew_now)
        self._renewals.start()
        return held

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give it back; that it was lost meanwhile is told by `lost`, and is not an error of the block."""
        if sys.is_finalizing():
            return  # in a generator that is left over; threads stand still by now, and the lease runs out
        if self._renewals:
            self._renewals.stop()
        if self._held and not self._held.hold.is_settled:
            try:
                self._run(self._verbs.give_back(self._held.now, error))
            except InterlockError as why:
                self._held.hold.failed(why)


class AsyncHold(Generic[A]):
    """`async with` an async client: held inside the block, renewed by a task, given back at the end."""

    def __init__(self, run: RunFlowAsync, verbs: Verbs[Any, Any, A]) -> None:
        self._run = run
        self._verbs = verbs
        self._renewals: RenewalTask | None = None
        self._held: A | None = None

    async def __aenter__(self) -> A:
        """Acquire it, or raise why not."""
        import asyncio

        sent_at, verbs = time.monotonic(), self._verbs
        first = await self._run(verbs.acquired())
        self._held = held = verbs.held_async(self._run, verbs.client, first, verbs.ttl_seconds, sent_at)

        async def renew_now() -> None:
            async with held.turn:
                if not held.hold.is_settled:
                    held.now = await self._run(verbs.renew(held.now))

        self._renewals = RenewalTask(held.hold, renew_now)
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
        if self._held and not self._held.hold.is_settled:
            try:
                await self._give_back(self._held.now, error)
            except InterlockError as why:
                self._held.hold.failed(why)

    async def _give_back(self, latest: Any, error: BaseException | None) -> None:
        await self._run(settled(self._verbs.give_back(latest, error)))
