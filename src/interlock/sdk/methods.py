"""Operations as methods of the two clients: a flow is driven blocking, or on the running loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from interlock.sdk.flow import Flow
from interlock.sdk.session import Session

if TYPE_CHECKING:
    from interlock.sdk.grant_models import GrantClaim
    from interlock.sdk.granted import AsyncGranted, Granted
    from interlock.sdk.holding import AsyncHold, Hold
    from interlock.sdk.holds import Verbs

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    """A client whose calls return when they are done."""

    session: Session

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its result."""
        ...


class Awaiting(Protocol):
    """A client whose calls are awaited."""

    session: Session

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its result."""
        ...


def blocking(operation: Callable[Concatenate[Session, P], Flow[T]]) -> Callable[Concatenate[Blocking, P], T]:
    """An operation as a method that returns when it is done."""

    @wraps(operation)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(operation(self.session, *args, **kwargs))

    _describe(call, operation, "{}")
    return call


def awaited(
    operation: Callable[Concatenate[Session, P], Flow[T]],
) -> Callable[Concatenate[Awaiting, P], Coroutine[Any, Any, T]]:
    """An operation as a coroutine method."""

    @wraps(operation)
    async def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation(self.session, *args, **kwargs))

    _describe(call, operation, "{}")
    return call


def held(verbs: Callable[Concatenate[Session, P], Verbs[T]]) -> Callable[Concatenate[Blocking, P], Hold[T]]:
    """Something to hold as a method that opens a `with` block."""

    @wraps(verbs)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> Hold[T]:
        from interlock.sdk.holding import Hold

        return Hold(self.run, verbs(self.session, *args, **kwargs))

    _describe(call, verbs, "Hold[{}]")
    return call


def held_async(
    verbs: Callable[Concatenate[Session, P], Verbs[T]],
) -> Callable[Concatenate[Awaiting, P], AsyncHold[T]]:
    """Something to hold as a method that opens an `async with` block."""

    @wraps(verbs)
    def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> AsyncHold[T]:
        from interlock.sdk.holding import AsyncHold

        return AsyncHold(self.run, verbs(self.session, *args, **kwargs))

    _describe(call, verbs, "AsyncHold[{}]")
    return call


def permitted(
    claim: Callable[Concatenate[Session, P], Flow[GrantClaim]],
) -> Callable[Concatenate[Blocking, P], Granted]:
    """A claim as a method that opens a `with` block, which is entered only once it is won."""

    @wraps(claim)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> Granted:
        from interlock.sdk.granted import Granted

        return Granted(self.run, lambda: claim(self.session, *args, **kwargs))

    _describe(call, claim, "Granted")
    return call


def permitted_async(
    claim: Callable[Concatenate[Session, P], Flow[GrantClaim]],
) -> Callable[Concatenate[Awaiting, P], AsyncGranted]:
    """A claim as a method that opens an `async with` block, which is entered only once it is won."""

    @wraps(claim)
    def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> AsyncGranted:
        from interlock.sdk.granted import AsyncGranted

        return AsyncGranted(self.run, lambda: claim(self.session, *args, **kwargs))

    _describe(call, claim, "AsyncGranted")
    return call


def _describe(method: Callable[..., Any], operation: Callable[..., Any], result: str) -> None:
    """Show a method as it is called: on `self` instead of a session, returning what the caller gets."""
    shown = signature(operation)
    session, *others = shown.parameters.values()
    inner = str(shown.return_annotation).partition("[")[2].removesuffix("]")
    method.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=[session.replace(name="self", annotation=Parameter.empty), *others],
        return_annotation=result.format(inner),
    )
