"""What a block holds: a lease or a run as it is, and what its holder can do with it.

A block goes on when its lease is lost, because Python cannot stop it from outside; `held.lost` says so, and writes
under the old fence are refused. Each step is written once, as a flow: `HeldLease` and `HeldRun` run it for a blocking
client, `AsyncHeldLease` and `AsyncHeldRun` for an async one.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from interlock.kernel.hold import HoldState
from interlock.sdk.flow import Flow, settled
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
        """The number to pass to each system that is written to; it refuses a smaller one."""
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
        """The conflict, if another caller changed the resource meanwhile; known from the latest renewal."""
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
    """Record how far the work has come; the next holder of the resource receives it whole.

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
    """Give the resource to the principal `to`, or to the next caller that asks, with a checkpoint: it is lost to you.

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


class BlockingHeld(_HeldOf[T]):
    """Held by a blocking client, whose calls return when they are done."""

    def __init__(self, run: RunFlow, client: Session, first: T, ttl_seconds: float, sent_at: float) -> None:
        super().__init__(client, first, ttl_seconds, sent_at)
        self.run = run
        self.turn = (
            threading.Lock()
        )  # a renewal that came after it was given back would look like a stolen fence


class AwaitingHeld(_HeldOf[T]):
    """Held by an async client, whose calls are awaited."""

    def __init__(
        self, run: RunFlowAsync, client: Session, first: T, ttl_seconds: float, sent_at: float
    ) -> None:
        import asyncio

        super().__init__(client, first, ttl_seconds, sent_at)
        self.run = run
        self.turn = asyncio.Lock()


def _done(step: Callable[Concatenate[Any, P], Flow[R]]) -> Callable[Concatenate[BlockingHeld[Any], P], R]:
    """A step as a method that returns when it is done."""

    @wraps(step)
    def call(self: BlockingHeld[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(step(self, *args, **kwargs))

    return call


def _given_up(step: Callable[Concatenate[Any, P], Flow[R]]) -> Callable[Concatenate[BlockingHeld[Any], P], R]:
    """A step after which nothing is held."""

    @wraps(step)
    def call(self: BlockingHeld[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            answer: R = self.run(step(self, *args, **kwargs))
            self.hold.is_settled = True
        return answer

    return call


def _awaited(
    step: Callable[Concatenate[Any, P], Flow[R]],
) -> Callable[Concatenate[AwaitingHeld[Any], P], Coroutine[Any, Any, R]]:
    """A step as a coroutine method."""

    @wraps(step)
    async def call(self: AwaitingHeld[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.run(step(self, *args, **kwargs))

    return call


def _awaited_given_up(
    step: Callable[Concatenate[Any, P], Flow[R]],
) -> Callable[Concatenate[AwaitingHeld[Any], P], Coroutine[Any, Any, R]]:
    """A step after which nothing is held, as a coroutine method."""

    @wraps(step)
    async def call(self: AwaitingHeld[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        async with self.turn:
            answer: R = await self.run(settled(step(self, *args, **kwargs)))
            self.hold.is_settled = True
        return answer

    return call


class HeldLease(LeaseInHand, BlockingHeld[Lease]):
    """What `with il.lease(…) as held:` holds: the lease as it is, and what its holder can do with it."""

    checkpoint = _done(_checkpoint)
    renew = _done(_renew_lease)
    suspend = _done(_suspend)
    resume = _done(_resume)
    hand_off = _given_up(_hand_off)
    release = _given_up(_release)


class AsyncHeldLease(LeaseInHand, AwaitingHeld[Lease]):
    """What `async with il.lease(…) as held:` holds: the lease as it is, and what its holder can do with it."""

    checkpoint = _awaited(_checkpoint)
    renew = _awaited(_renew_lease)
    suspend = _awaited(_suspend)
    resume = _awaited(_resume)
    hand_off = _awaited_given_up(_hand_off)
    release = _awaited_given_up(_release)


class HeldRun(RunInHand, BlockingHeld[Run]):
    """What `with il.admit(…) as run:` holds: the run as it is, and what its holder can do with it."""

    renew = _done(_renew_run)
    complete = _given_up(_complete)
    fail = _given_up(_fail)


class AsyncHeldRun(RunInHand, AwaitingHeld[Run]):
    """What `async with il.admit(…) as run:` holds: the run as it is, and what its holder can do with it."""

    renew = _awaited(_renew_run)
    complete = _awaited_given_up(_complete)
    fail = _awaited_given_up(_fail)


def is_final(why: Exception) -> bool:
    """Whether the service refused a renewal for good. To call it invalid (a checkpoint) says nothing of the hold."""
    passing = Ambiguous | Busy | Full | InvalidRequest | Unavailable | UnexpectedAnswer
    return isinstance(why, InterlockError) and not (why.is_foreign or isinstance(why, passing))
