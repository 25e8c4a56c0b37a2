"""Putting a gate around a function so that it stays the kind of function it was."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

from interlock.sdk.arguments import Arguments, CallShape

if TYPE_CHECKING:
    from interlock.sdk.flow import Flow
    from interlock.sdk.gate import Gate
    from interlock.sdk.session import Session

F = TypeVar("F", bound=Callable[..., Any])
Asking: TypeAlias = "Callable[[tuple[object, ...], dict[str, object]], Flow[Arguments]]"
Drive: TypeAlias = "Callable[[Flow[Arguments]], Arguments]"


class Drivers(NamedTuple):
    """How a client carries the gate's flow; an async client cannot block."""

    blocking: Drive | None
    in_loop: Callable[[Flow[Arguments]], Awaitable[Arguments]]


def gated(function: F, gate: Gate, session: Session, drivers: Drivers) -> F:
    """`function` behind `gate`: same name, doc, signature and kind. A generator asks when it is begun."""
    if isinstance(function, staticmethod | classmethod):
        rewrapped = cast("Callable[[object], F]", type(cast("object", function)))
        return rewrapped(gated(cast("Any", function).__func__, gate, session, drivers))
    if not inspect.isfunction(function):
        raise TypeError(f"a gate goes around a function, not {function!r}; put it on a def")
    shape = CallShape(function)

    def asking(args: tuple[object, ...], kwargs: dict[str, object]) -> Flow[Arguments]:
        return gate.passage(session, shape, shape.bind(args, kwargs))

    if inspect.iscoroutinefunction(function):
        return cast("F", _coroutine(function, asking, drivers))
    if inspect.isasyncgenfunction(function):
        return cast("F", _async_generator(function, asking, drivers))
    if drivers.blocking is None:
        raise TypeError(
            f"{function.__qualname__} is not async, so an AsyncInterlock cannot gate it; "
            "make it async def, or use the gate of an Interlock"
        )
    wrap = _generator if inspect.isgeneratorfunction(function) else _plain
    return cast("F", wrap(function, asking, drivers.blocking))


def _plain(function: Callable[..., Any], asking: Asking, drive: Drive) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        agreed = drive(asking(args, kwargs))
        return function(*agreed.args, **agreed.kwargs)

    return wrapper


def _generator(function: Callable[..., Any], asking: Asking, drive: Drive) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        agreed = drive(asking(args, kwargs))
        inner: Generator[Any, Any, Any] = function(*agreed.args, **agreed.kwargs)
        return (yield from inner)

    return wrapper


def _coroutine(function: Callable[..., Any], asking: Asking, drivers: Drivers) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        agreed = await drivers.in_loop(asking(args, kwargs))
        return await function(*agreed.args, **agreed.kwargs)

    return wrapper


def _async_generator(function: Callable[..., Any], asking: Asking, drivers: Drivers) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        agreed = await drivers.in_loop(asking(args, kwargs))
        inner = function(*agreed.args, **agreed.kwargs)
        try:
            item = await anext(inner)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as thrown:  # noqa: BLE001 - what the consumer throws is the function's to see
                    item = await inner.athrow(thrown)
                else:
                    item = await inner.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()

    return wrapper
