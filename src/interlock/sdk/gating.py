"""Putting a gate around a function so that it stays the kind of function it was."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

from interlock.sdk.arguments import CallShape
from interlock.sdk.flow import NothingRun
from interlock.sdk.gate_running import Drive, DriveInLoop, Passage, held, held_in_loop

if TYPE_CHECKING:
    from interlock.sdk.flow import Flow
    from interlock.sdk.gate import Gate
    from interlock.sdk.session import Session

F = TypeVar("F", bound=Callable[..., Any])
Asking: TypeAlias = "Callable[[tuple[object, ...], dict[str, object]], Flow[Passage]]"


class Drivers(NamedTuple):
    """How a client carries the gate's flow; an async client cannot block."""

    blocking: Drive | None
    in_loop: DriveInLoop


def gated(function: F, gate: Gate, session: Session, drivers: Drivers) -> F:
    """`function` behind `gate`: same name, doc, signature and kind. A generator asks when it is begun."""
    if isinstance(function, staticmethod | classmethod):
        rewrapped = cast("Callable[[object], F]", type(cast("object", function)))
        return rewrapped(gated(cast("Any", function).__func__, gate, session, drivers))
    if not inspect.isfunction(function):
        raise TypeError(f"a gate goes around a function, not {function!r}; put it on a def")
    shape = CallShape(function)

    def asking(args: tuple[object, ...], kwargs: dict[str, object]) -> Flow[Passage]:
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
        passage: Passage = drive(asking(args, kwargs))
        agreed = passage.arguments
        with held(passage, drive):
            return _ran(function, function(*agreed.args, **agreed.kwargs))

    return wrapper


def _ran(function: Callable[..., Any], result: Any) -> Any:
    """A result, but no coroutine, as of an async function under another decorator: its job would be done before it."""
    if not inspect.iscoroutine(result):
        return result
    result.close()
    name = function.__qualname__
    raise NothingRun(
        f"{name} returned a coroutine, and none of it was run; put the gate on the `async def` itself"
    )


def _generator(function: Callable[..., Any], asking: Asking, drive: Drive) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        passage: Passage = drive(asking(args, kwargs))
        agreed = passage.arguments
        inner: Generator[Any, Any, Any] = function(*agreed.args, **agreed.kwargs)
        with held(passage, drive):
            return (yield from inner)

    return wrapper


def _coroutine(function: Callable[..., Any], asking: Asking, drivers: Drivers) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        passage: Passage = await drivers.in_loop(asking(args, kwargs))
        agreed = passage.arguments
        async with held_in_loop(passage, drivers.in_loop):
            return await function(*agreed.args, **agreed.kwargs)

    return wrapper


def _async_generator(function: Callable[..., Any], asking: Asking, drivers: Drivers) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        passage: Passage = await drivers.in_loop(asking(args, kwargs))
        agreed = passage.arguments
        inner = function(*agreed.args, **agreed.kwargs)
        async with held_in_loop(passage, drivers.in_loop):
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
