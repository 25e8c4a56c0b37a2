"""Effects as a `with` block and as a decorator, built on `once`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock.sdk.arguments import CallShape, named_by
from interlock.sdk.flow import settled
from interlock.sdk.once import (
    KEY_PARAMETER,
    Conditions,
    committed,
    opened,
    run_once,
    told_of_failure,
    yields,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from interlock.sdk.flow import Flow
    from interlock.sdk.session import Session
    from interlock.wire.effects import Effect

F = TypeVar("F", bound=Callable[..., Any])


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
        """Record what became of it."""
        self._drivers.blocking(settled(self._closing(error)))

    async def __aenter__(self) -> Self:
        """Begin."""
        self._result = None  # as above
        self._effect = await self._drivers.in_loop(self._opening())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record what became of it."""
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
