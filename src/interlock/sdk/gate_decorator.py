"""Puts a gate around a function and keeps its kind: plain, generator, coroutine or async generator."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from interlock.sdk.arguments import CallShape
from interlock.sdk.flow import Flow, NothingRun, settled
from interlock.sdk.gate import Finished, Passage
from interlock.sdk.gated_call import Call, Drive, DriveInLoop, running, running_in_loop
from interlock.sdk.outcomes import AlreadyDone
from interlock.sdk.results import Kept, Result, Yielded

if TYPE_CHECKING:
    from interlock.sdk.gate import Gate
    from interlock.sdk.session import Session
    from interlock.wire.jobs import Job

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Drivers(NamedTuple):
    """How a client carries the gate's flow; an async client cannot block."""

    blocking: Drive | None
    in_loop: DriveInLoop


class _Gated:
    """One function behind its gate."""

    def __init__(self, function: Callable[..., Any], gate: Gate, session: Session) -> None:
        self.function, self.gate, self.session = function, gate, session
        self.shape = CallShape(function)
        self.result = Result(function)

    def asking(
        self, args: tuple[object, ...], kwargs: dict[str, object], result: Result | Yielded
    ) -> Flow[Passage | Finished]:
        return self.gate.passage(self.session, self.shape, result, self.shape.bind(args, kwargs))

    def call(self, passage: Passage) -> Call:
        return Call(passage, self.gate, self.session)

    def begun(self, passage: Passage) -> Any:
        """What calling the function with the agreed arguments gives: of a generator, nothing has run yet."""
        return self.function(*passage.arguments.args, **passage.arguments.kwargs)

    def again(self, job: Job, read: Callable[[Any], T]) -> T:
        """What the call returned when it was made before."""
        if job.result_text is None:
            try:
                return read(job.result)
            except (msgspec.ValidationError, KeyError, TypeError):
                pass  # the function returned something else in those days
        raise AlreadyDone(job.id, job.topic, job.result_text)


def gated(function: F, gate: Gate, session: Session, drivers: Drivers) -> F:
    """`function` behind `gate`: same name, doc, signature and kind. A generator asks when it is begun."""
    if isinstance(function, staticmethod | classmethod):
        rewrapped = cast("Callable[[object], F]", type(cast("object", function)))
        return rewrapped(gated(cast("Any", function).__func__, gate, session, drivers))
    if not inspect.isfunction(function):
        raise TypeError(f"a gate goes around a function, not {function!r}; put it on a def")
    behind = _Gated(function, gate, session)
    if inspect.iscoroutinefunction(function):
        return cast("F", _coroutine(behind, drivers.in_loop))
    if inspect.isasyncgenfunction(function):
        return cast("F", _async_generator(behind, drivers.in_loop))
    if drivers.blocking is None:
        raise TypeError(
            f"{function.__qualname__} is not async, so an AsyncInterlock cannot gate it; "
            "make it async def, or use the gate of an Interlock"
        )
    wrap = _generator if inspect.isgeneratorfunction(function) else _plain
    return cast("F", wrap(behind, drivers.blocking))


def _plain(behind: _Gated, drive: Drive) -> Callable[..., Any]:
    @wraps(behind.function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found: Passage | Finished = drive(behind.asking(args, kwargs, behind.result))
        if isinstance(found, Finished):
            return behind.again(found.job, behind.result.read)
        call = behind.call(found)
        with running(call, drive):
            value = call.step(lambda: _ran(behind.function, behind.begun(found)))
        drive(call.returned(behind.result.kept(value)))
        return value

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


def _generator(behind: _Gated, drive: Drive) -> Callable[..., Any]:
    @wraps(behind.function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        yielded, unwanted, returned = Yielded(behind.function), None, None
        found: Passage | Finished = drive(behind.asking(args, kwargs, yielded))
        if isinstance(found, Finished):
            items, returned = behind.again(found.job, yielded.read)
            yield from items
            return returned
        call = behind.call(found)
        with running(call, drive):
            try:
                returned = yield from _steps(call, behind.begun(found), yielded)
            except GeneratorExit as closed:
                unwanted = closed
        # A call that is left over when the interpreter ends reports nothing: threads no longer run by then.
        if not (unwanted and sys.is_finalizing()):
            drive(call.returned(_end(yielded, returned, unwanted)))
        if unwanted:
            raise unwanted
        return returned

    return wrapper


def _steps(call: Call, inner: Generator[Any, Any, Any], yielded: Yielded) -> Generator[Any, Any, Any]:
    """The function's generator, item by item. Between two items the code that runs is the consumer's."""
    resume: Callable[[], Any] = partial(next, inner)
    while True:
        try:
            item = call.step(resume)
        except StopIteration as end:
            return end.value
        yielded.add(item)
        try:
            sent = yield item
        except GeneratorExit:
            call.step(inner.close)
            raise
        except BaseException as thrown:  # noqa: BLE001 - what the consumer throws is the function's to see
            resume = partial(inner.throw, thrown)
        else:
            resume = partial(inner.send, sent)


def _end(yielded: Yielded, returned: Any, unwanted: GeneratorExit | None) -> Kept:
    return yielded.cut_short() if unwanted else yielded.kept(returned)


def _coroutine(behind: _Gated, drive: DriveInLoop) -> Callable[..., Any]:
    @wraps(behind.function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        found: Passage | Finished = await drive(behind.asking(args, kwargs, behind.result))
        if isinstance(found, Finished):
            return behind.again(found.job, behind.result.read)
        call = behind.call(found)
        async with running_in_loop(call, drive):
            value = await call.step_in_loop(behind.begun(found))
        await drive(settled(call.returned(behind.result.kept(value))))
        return value

    return wrapper


def _async_generator(behind: _Gated, drive: DriveInLoop) -> Callable[..., Any]:
    @wraps(behind.function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        yielded, unwanted = Yielded(behind.function), None
        found: Passage | Finished = await drive(behind.asking(args, kwargs, yielded))
        if isinstance(found, Finished):
            for item in behind.again(found.job, yielded.read)[0]:
                yield item
            return
        call, inner = behind.call(found), cast("AsyncGenerator[Any, Any]", behind.begun(found))
        async with running_in_loop(call, drive):
            resume = anext(inner)
            try:
                while True:
                    try:
                        item = await call.step_in_loop(resume)
                    except StopAsyncIteration:
                        break
                    yielded.add(item)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as thrown:  # noqa: BLE001 - as above
                        resume = inner.athrow(thrown)
                    else:
                        resume = inner.asend(sent)
            except GeneratorExit as closed:
                unwanted = closed
            finally:
                await call.step_in_loop(inner.aclose())
        await drive(settled(call.returned(_end(yielded, None, unwanted))))
        if unwanted:
            raise unwanted

    return wrapper
