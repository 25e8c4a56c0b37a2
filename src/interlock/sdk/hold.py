"""Holds a lease (a slot, a resource) for the length of a block, and renews it in the background.

`kernel/hold.py` decides when to renew and when the lease is lost. A block whose lease is lost goes on, because Python
cannot stop it from outside; `held.lost` says so, and its writes under the old fence are refused.

What can be done with a lease or a run inside its block is written once, as flows: `HeldLease` and `HeldRun` run them
for a blocking client, `AsyncHeldLease` and `AsyncHeldRun` for an async one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

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
from interlock.wire.leases import Lease, Predecessor

if TYPE_CHECKING:
    from datetime import datetime

P = ParamSpec("P")
R = TypeVar("R")
RunFlow: TypeAlias = Callable[[Flow[Any]], Any]
RunFlowAsync: TypeAlias = Callable[[Flow[Any]], Awaitable[Any]]


class Fenced(Protocol):
    """What is held under a fence: a lease, a run or a job."""

    @property
    def fence(self) -> int: ...


class Timed(Fenced, Protocol):
    """What is held for a time of its own."""

    @property
    def ttl_seconds(self) -> int | float: ...


F = TypeVar("F", bound=Fenced)
T = TypeVar("T", bound=Timed)


class Held(Generic[F]):
    """What is held: `now` is its latest state, `fence` proves it to whatever is written to."""

    def __init__(self, first: F, lease_seconds: float, sent_at: float) -> None:
        self.now: F = first
        self.hold = HoldState(lease_seconds, sent_at, is_final=is_final)

    @property
    def fence(self) -> int:
        """The number to pass to whatever is written to; it refuses a smaller one."""
        return self.now.fence

    @property
    def lost(self) -> bool:
        """Whether it is held no longer: it was refused, its time passed without a renewal, or it was given back.

        Look at it before everything that cannot be undone, and stop when it is true.
        """
        return self.hold.is_over


class _HeldOf(Held[T]):
    """What a block of a client holds."""

    def __init__(self, client: Session, first: T, ttl_seconds: float, sent_at: float) -> None:
        # A tenant may grant less than was asked for; what was granted counts.
        super().__init__(first, min(ttl_seconds, first.ttl_seconds), sent_at)
        self.client = client
        self.first = first


class LeaseInHand(_HeldOf[Lease]):
    """A lease that a block holds: what is known of it."""

    @property
    def lease_id(self) -> str:
        """The id of the lease."""
        return self.now.lease_id

    @property
    def resource(self) -> str:
        """What is leased."""
        return self.now.resource

    @property
    def state(self) -> str:
        """What the lease was at its latest renewal, such as `leased` or `conflict_detected`."""
        return self.now.state

    @property
    def session(self) -> str:
        """The session that it was acquired in, or an empty text."""
        return self.now.session

    @property
    def predecessor(self) -> Predecessor | None:
        """Who had the resource before, how that ended, and their last checkpoint; None if nobody had."""
        return self.first.predecessor  # only the answer to acquiring it tells

    @property
    def conflict_id(self) -> str | None:
        """The conflict, if somebody else changed the resource meanwhile; known from the latest renewal."""
        return self.now.conflict_id

    @property
    def expires_at(self) -> datetime | None:
        """Until when it is held without another renewal, by the service's clock."""
        return self.now.expires_at


class RunInHand(_HeldOf[Run]):
    """A run that a block holds a slot for: what is known of it."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.now.run_id

    @property
    def workflow(self) -> str:
        """The workflow that it is a run of."""
        return self.now.workflow

    @property
    def slot_expires_at(self) -> datetime | None:
        """Until when it has its slot without another renewal, by the service's clock."""
        return self.now.slot_expires_at


def _checkpoint(
    held: LeaseInHand,
    done: Any,
    *,
    partial: Any = None,
    evidence: Any = None,
    validation: Any = None,
    open_questions: Any = None,
) -> Flow[Lease]:
    """Record how far the work has come; whoever holds the resource next receives it whole.

    Every part is JSON of your own: what is `done`, what is half done (`partial`), what shows it, how it was checked,
    and what is not clear yet. Raises `Conflict` if the lease is lost.
    """
    held.now = yield from leases.checkpoint_lease(
        held.client, held.lease_id, held.fence, done, partial=partial, evidence=evidence, validation=validation,
        open_questions=open_questions, session=held.session,
    )  # fmt: skip
    return held.now


def _renew_lease(held: LeaseInHand, *, progress: Any = None) -> Flow[Lease]:
    """Keep the lease for another period, and say what has changed since. The block renews by itself; call it to
    show `progress`, or to learn at once of a conflict. Raises `Conflict` if the lease is lost.
    """
    held.now = yield from leases.renew_lease(
        held.client, held.lease_id, held.fence, progress=progress, session=held.session
    )
    return held.now


def _suspend(
    held: LeaseInHand, *, reason: Literal["waiting_on_review", "paused_by_policy"] = "waiting_on_review"
) -> Flow[Lease]:
    """Show that the work waits for a person. The lease is kept meanwhile; `resume` goes on."""
    held.now = yield from leases.suspend_lease(
        held.client, held.lease_id, held.fence, reason=reason, session=held.session
    )
    return held.now


def _resume(held: LeaseInHand) -> Flow[Lease]:
    """Go on after `suspend`."""
    held.now = yield from leases.resume_lease(held.client, held.lease_id, held.fence, session=held.session)
    return held.now


def _hand_off(held: LeaseInHand, *, to: str | None = None, checkpoint: Any = None) -> Flow[Lease]:
    """Give the resource to the principal `to`, or to whoever asks next, with a checkpoint; then it is no longer held.

    `checkpoint` is what they start from: `{"done": …}` with the other parts of a checkpoint, or any JSON.
    """
    held.now = yield from leases.hand_off_lease(
        held.client, held.lease_id, held.fence, to=to, checkpoint=checkpoint, session=held.session
    )
    return held.now


def _release(held: LeaseInHand) -> Flow[Lease]:
    """Give the resource back before the end of the block."""
    held.now = yield from leases.release_lease(held.client, held.lease_id, held.fence, session=held.session)
    return held.now


def _renew_run(held: RunInHand) -> Flow[Run]:
    """Keep the slot for another period. The block renews by itself. Raises `Conflict` if the slot is lost."""
    held.now = yield from admission.renew_run(held.client, held.run_id, held.fence)
    return held.now


def _complete(held: RunInHand, result: Any = None) -> Flow[Run]:
    """End the run well, with a result (JSON), before the end of the block, and free its slot."""
    held.now = yield from admission.complete_run(held.client, held.run_id, held.fence, result=result)
    return held.now


def _fail(held: RunInHand, error: str = "") -> Flow[Run]:
    """End the run badly before the end of the block, and free its slot."""
    held.now = yield from admission.fail_run(held.client, held.run_id, held.fence, error=error)
    return held.now


class _Blocking(_HeldOf[T]):
    """Held by a blocking client, whose calls return when they are done."""

    def __init__(self, run: RunFlow, client: Session, first: T, ttl_seconds: float, sent_at: float) -> None:
        super().__init__(client, first, ttl_seconds, sent_at)
        self.run = run
        self.turn = (
            threading.Lock()
        )  # a renewal that came after it was given back would look like a stolen fence


class _Awaiting(_HeldOf[T]):
    """Held by an async client, whose calls are awaited."""

    def __init__(
        self, run: RunFlowAsync, client: Session, first: T, ttl_seconds: float, sent_at: float
    ) -> None:
        import asyncio

        super().__init__(client, first, ttl_seconds, sent_at)
        self.run = run
        self.turn = asyncio.Lock()


def _done(step: Callable[Concatenate[Any, P], Flow[R]]) -> Callable[Concatenate[_Blocking[Any], P], R]:
    """A step as a method that returns when it is done."""

    @wraps(step)
    def call(self: _Blocking[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(step(self, *args, **kwargs))

    return call


def _given_up(step: Callable[Concatenate[Any, P], Flow[R]]) -> Callable[Concatenate[_Blocking[Any], P], R]:
    """A step after which nothing is held."""

    @wraps(step)
    def call(self: _Blocking[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            answer: R = self.run(step(self, *args, **kwargs))
            self.hold.is_settled = True
        return answer

    return call


def _awaited(
    step: Callable[Concatenate[Any, P], Flow[R]],
) -> Callable[Concatenate[_Awaiting[Any], P], Coroutine[Any, Any, R]]:
    """A step as a coroutine method."""

    @wraps(step)
    async def call(self: _Awaiting[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.run(step(self, *args, **kwargs))

    return call


def _awaited_given_up(
    step: Callable[Concatenate[Any, P], Flow[R]],
) -> Callable[Concatenate[_Awaiting[Any], P], Coroutine[Any, Any, R]]:
    """A step after which nothing is held, as a coroutine method."""

    @wraps(step)
    async def call(self: _Awaiting[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        async with self.turn:
            answer: R = await self.run(settled(step(self, *args, **kwargs)))
            self.hold.is_settled = True
        return answer

    return call


class HeldLease(LeaseInHand, _Blocking[Lease]):
    """What `with il.lease(…) as held:` holds: the lease as it is, and what its holder can do with it."""

    checkpoint = _done(_checkpoint)
    renew = _done(_renew_lease)
    suspend = _done(_suspend)
    resume = _done(_resume)
    hand_off = _given_up(_hand_off)
    release = _given_up(_release)


class AsyncHeldLease(LeaseInHand, _Awaiting[Lease]):
    """What `async with il.lease(…) as held:` holds: the lease as it is, and what its holder can do with it."""

    checkpoint = _awaited(_checkpoint)
    renew = _awaited(_renew_lease)
    suspend = _awaited(_suspend)
    resume = _awaited(_resume)
    hand_off = _awaited_given_up(_hand_off)
    release = _awaited_given_up(_release)


class HeldRun(RunInHand, _Blocking[Run]):
    """What `with il.admit(…) as run:` holds: the run as it is, and what its holder can do with it."""

    renew = _done(_renew_run)
    complete = _given_up(_complete)
    fail = _given_up(_fail)


class AsyncHeldRun(RunInHand, _Awaiting[Run]):
    """What `async with il.admit(…) as run:` holds: the run as it is, and what its holder can do with it."""

    renew = _awaited(_renew_run)
    complete = _awaited_given_up(_complete)
    fail = _awaited_given_up(_fail)


H = TypeVar("H", bound=_Blocking[Any])
A = TypeVar("A", bound=_Awaiting[Any])


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


def is_final(why: Exception) -> bool:
    """Whether the service refused a renewal for good. To call it invalid (a checkpoint) says nothing of the hold."""
    passing = Ambiguous | Busy | Full | InvalidRequest | Unavailable | UnexpectedAnswer
    return isinstance(why, InterlockError) and not (why.is_foreign or isinstance(why, passing))
