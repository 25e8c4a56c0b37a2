"""What both clients share: the address, the key, the patience, and the gate."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from interlock.sdk.arguments import CallShape, named_by
from interlock.sdk.calls import invalid
from interlock.sdk.flow import settled
from interlock.sdk.gate import Gate, Said
from interlock.sdk.gate_decorator import Drivers, gated
from interlock.sdk.once import (
    KEY_PARAMETER,
    Conditions,
    committed,
    opened,
    run_once,
    told_of_failure,
    yields,
)
from interlock.sdk.session import Session
from interlock.service.settings import store_named

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from interlock.sdk.flow import Flow
    from interlock.sdk.gated_call import CurrentCall
    from interlock.sdk.once import GrantNeeded, LeaseLike, Reconcile
    from interlock.sdk.retry import OnRetry, RetryPolicy
    from interlock.wire.effects import Effect
    from interlock.wire.jobs import Evidence, HeldJob, Job, Target

F = TypeVar("F", bound=Callable[..., Any])


class ClientBase:
    """A client that has yet to learn how to send."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        store: str | None = None,
        retry: RetryPolicy | None = None,
        on_retry: OnRetry | None = None,
        on_wait: Callable[[str], object] | None = None,
        timeout: float = 10.0,
        make_store: bool = True,
        session: str | None = None,
    ) -> None:
        """Talk to the server at `url`, or without one run the service in this process on `store`.

        What is left out comes from `INTERLOCK_URL`, `INTERLOCK_KEY`, `INTERLOCK_STORE` and `INTERLOCK_SESSION`.
        Without a url and a store, the store is `.interlock/interlock.db` in the current folder or the nearest one
        above that has it. The first write makes a store that is not there, unless `make_store` is False; to read
        makes none and raises `NoStore`.
        `timeout` is what one attempt may take, in seconds; `retry` says how patient a call is beyond that. `on_wait`
        is told in one line of whatever has been waited for longer than a second; without it the log `interlock` is.
        `session` tells apart several workers of one principal: leases are acquired in it, and belong to it alone.
        """
        if url is not None and store is not None:
            raise invalid("pass a url (a server) or a store (this process), not both")
        self.url = url or (os.environ.get("INTERLOCK_URL") if store is None else None) or None
        self.store = store_named(store)
        self.make_store = make_store
        self.session = Session(
            key=_checked_key(key or os.environ.get("INTERLOCK_KEY") or None),
            retry=retry,
            on_retry=on_retry,
            on_wait=on_wait,
            timeout_seconds=timeout,
            in_session=os.environ.get("INTERLOCK_SESSION") if session is None else session,
        )
        self._connect()

    def __repr__(self) -> str:
        """Where it leads; never the key."""
        place = f"url={self.url!r}" if self.url else f"store={self.store!r}"
        return f"{type(self).__name__}({place})"

    def gate(
        self,
        topic: str,
        *,
        env: str | None = None,
        key: Callable[..., str | int] | None = None,
        wait: float | None = None,
        channel: str | None = None,
        labels: Said[Mapping[str, str] | None] = None,
        risk: Said[Sequence[str] | None] = None,
        priority: Literal["low", "normal", "high", "critical"] | None = None,
        target: Said[Target | None] = None,
        evidence: Said[Sequence[Evidence] | None] = None,
        expires_in: str | None = None,
        on_pending: Callable[[Job], object] | None = None,
        accept_edits: bool = False,
        repeatable: bool = False,
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        reconcile: Reconcile | None = None,
        lease: float = 60,
    ) -> Callable[[F], F]:
        """Let a function run only when policy, and people where it asks for them, agreed to the call; and then once.

        Every argument, by name and defaults included, is the job's payload, and what was approved is what
        runs. The object of a method is not an argument. Instead of running, a call raises `Denied`,
        `Rejected`, `Expired`, `StillPending` (after `wait` seconds; None waits until it is decided) or
        `Conflict`; arguments that are not JSON are refused by name.

        `key` computes a name for the intent from the arguments. A repeat under the same key, also from another
        process and after a crash, returns what the first call returned (`AlreadyDone` if that is not JSON), raises
        `Busy` while it runs (or waits, for `wait` seconds), and runs again only if the first call surely did
        nothing: it raised `NotDone` or one of `not_done`. After any other exception, a crash or a lost hold nobody
        knows, and a repeat raises `Ambiguous`. `reconcile` is asked first: it is given the effect, asks the remote
        side about its `downstream_key`, and answers `Committed(result)`, `NotCommitted()` or `Unknown()`.
        `repeatable` says that the function may run again after all, like a read. Without a key every call is an
        intent of its own.

        `labels`, `risk`, `target` and `evidence` are values or functions of the arguments. `on_pending` is told the
        job when a person has to decide. If a reviewer edits the request the call ends in `Conflict`, or with
        `accept_edits` runs with the edited arguments. The call is held for `lease` seconds at a time, and renewed;
        `current()` inside the function says whether it still is.
        """
        gate = Gate(
            topic=topic,
            env=env,
            key=key,
            wait=wait,
            channel=channel,
            labels=labels,
            risk=risk,
            priority=priority,
            target=target,
            evidence=evidence,
            expires_in=expires_in,
            on_pending=on_pending,
            accept_edits=accept_edits,
            repeatable=repeatable,
            not_done=_exceptions(not_done),
            reconcile=reconcile,
            lease=lease,
        )
        return lambda function: gated(function, gate, self.session, self._drivers())

    def current(self) -> CurrentCall:
        """The gated call that is running here: its job, fence, permit, `downstream_key`, and whether it is `lost`."""
        from interlock.sdk.gated_call import current_call

        return current_call(self.session)

    def effect(
        self,
        *,
        key: Callable[..., str | int],
        ttl: float | None = None,
        reconcile: Reconcile | None = None,
        grant: GrantNeeded | None = None,
    ) -> Callable[[F], F]:
        """Make every call of a function an effect: run once under the action id that `key` computes from the
        arguments; a repeat returns the recorded result. See `once`.
        """
        from interlock.sdk.once import Conditions

        conditions = Conditions(ttl=ttl, reconcile=reconcile, grant=grant)
        return lambda function: effectual(function, self._drivers(), self.session, key, conditions)

    def effect_scope(
        self,
        action_id: str,
        *,
        request: Any,
        ttl: float | None = None,
        reconcile: Reconcile | None = None,
        job: HeldJob | str | None = None,
        lease: LeaseLike | None = None,
        target: Target | None = None,
        grant: GrantNeeded | None = None,
    ) -> EffectScope:
        """One effect as a `with` (or `async with`) block, which says `commit(result)` when it has happened.

        `request` is JSON that names what is done: another request under the same id is a `Conflict`. Inside the
        block look at `replayed` first: if it is true, `result` is there and there is nothing to do. A `grant`
        named by its task alone must fit `request`.
        """
        from interlock.sdk.once import Conditions, hash_of_request

        conditions = Conditions(
            ttl=ttl, reconcile=reconcile, job=job, lease=lease, target=target, grant=grant
        ).permitting(request)
        hashed = hash_of_request({"request": request})
        return EffectScope(self.session, self._drivers(), action_id, hashed, conditions)

    def _connect(self) -> None:
        raise NotImplementedError

    def _drivers(self) -> Drivers:
        raise NotImplementedError


def _exceptions(named: Any) -> tuple[type[BaseException], ...]:
    """What `not_done` names. A wrong one would be found only once the function has raised, too late to record it."""
    given: tuple[Any, ...] = (
        tuple(cast("Sequence[Any]", named)) if isinstance(named, tuple | list) else (named,)
    )
    for each in given:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"not_done takes classes of exceptions, not {each!r}")
    return given


def _checked_key(key: str | None) -> str | None:
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise invalid(
            "the key has characters that no key has; pass it exactly as it was shown when it was made"
        )
    return key


class EffectScope:
    """One effect as a block of code. Leaving it without `commit` leaves the outcome unknown."""

    def __init__(
        self, session: Session, drivers: Any, action_id: str, request_hash: str, conditions: Conditions
    ) -> None:
        self._session, self._drivers = session, drivers
        self._opening = lambda: opened(session, action_id, request_hash, conditions)
        self._effect: Effect | None = None
        self._result: tuple[Any] | None = None

    @property
    def effect(self) -> Effect:
        """The effect as it was begun."""
        if self._effect is None:
            raise RuntimeError("the effect is not begun yet; use it inside its `with` block")
        return self._effect

    @property
    def replayed(self) -> bool:
        """Whether it was done before, so that there is nothing to do; `result` is what it gave."""
        return self.effect.replayed

    @property
    def result(self) -> Any:
        """What the effect gave: recorded before, or committed in this block."""
        return self._result[0] if self._result else self.effect.result

    @property
    def downstream_key(self) -> str:
        """What to pass to the remote side; the same for every attempt."""
        return self.effect.downstream_key

    @property
    def fence(self) -> int:
        """The number of this attempt."""
        return self.effect.fence

    def commit(self, result: Any = None) -> None:
        """Say that it happened. Recorded when the block ends, also if something after this line fails."""
        self._result = (result,)

    def __enter__(self) -> Self:
        """Begin."""
        if self._drivers.blocking is None:
            raise TypeError("an AsyncInterlock begins an effect with `async with`")
        self._result = None  # of an earlier time: it says nothing about this attempt
        self._effect = self._drivers.blocking(self._opening())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record how it ended."""
        self._drivers.blocking(settled(self._closing(error)))

    async def __aenter__(self) -> Self:
        """Begin."""
        self._result = None  # as above
        self._effect = await self._drivers.in_loop(self._opening())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record how it ended."""
        await self._drivers.in_loop(settled(self._closing(error)))

    def _closing(self, error: BaseException | None) -> Flow[None]:
        effect = self.effect
        if self._result is not None:
            yield from committed(self._session, effect, self._result[0])
        elif not effect.replayed and error is not None:
            yield from told_of_failure(self._session, effect, error)
        elif not effect.replayed:
            silent = RuntimeError(f"the block of effect {effect.action_id} ended without commit()")
            yield from told_of_failure(self._session, effect, silent)
            raise silent


def effectual(
    function: F, drivers: Any, session: Session, name: Callable[..., str | int], conditions: Conditions
) -> F:
    """`function`, each call of it an effect named by `name` from its arguments."""
    if not inspect.isfunction(function) or yields(function):
        raise TypeError(f"an effect is a function that returns, not {function!r}; put it on a def")

    def flow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Flow[Any]:
        bound = CallShape(function).bind(args, {KEY_PARAMETER: "", **kwargs} if takes_key else kwargs)
        named = {name: value for name, value in bound.payload.items() if name != KEY_PARAMETER}
        return run_once(
            session, named_by(name(**named), "the effect's key"), function, args, kwargs, conditions
        )

    takes_key = KEY_PARAMETER in inspect.signature(function).parameters
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await drivers.in_loop(flow(args, kwargs))

        return cast("F", awaited)
    if drivers.blocking is None:
        raise TypeError(
            f"{function.__qualname__} is not async, so an AsyncInterlock cannot run it; make it async def"
        )

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return drivers.blocking(flow(args, kwargs))

    return cast("F", called)
