"""Operations without I/O: a flow says what to send and how long to wait, and a driver does it.

Every call of the SDK is written once, as a generator that yields steps and receives their answers:

    Send(request)   answered with the `Response`; if none came, `TransportFailed` is raised at the yield
    Sleep(seconds)  answered when the time has passed
    Now()           answered with the driver's clock, in seconds that never go back
    Act(call)       answered with what the caller's own code returned, or with what it raised (`Raised`)
    Settle(flow)    answered likewise with how a flow ended, which is not cut short when the caller is cancelled

The blocking client and the async client run the same flows, so there are no twins to keep in step; tests run them on
a virtual clock. A driver always closes its flow, so a flow may rely on `finally` when a caller is interrupted or
cancelled in the middle of a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


Say: TypeAlias = Callable[[], object]  # tells that something is waited for

SAY_AFTER_SECONDS = 1.0  # a longer wait is reported in one line
SETTLE_SECONDS_MAX = 2.0  # what a caller that is cancelled still waits for what must not be lost


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request, before any socket: `path` starts at the server's root; path and query are quoted."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_seconds: float = 10.0
    only_asks: bool = False  # changes nothing, by whatever method it is sent


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP answer; header names are lower case."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class TransportFailed(Exception):
    """No answer came. `may_have_been_received` is False only where the request surely never arrived."""

    def __init__(self, reason: str, *, may_have_been_received: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_have_been_received = may_have_been_received


class NothingRun(TypeError):
    """The caller's code could not be run here, so it did nothing."""


class Send(msgspec.Struct, frozen=True):
    request: Request
    say: Say | None = None  # called once the answer has taken longer than a second


class Sleep(msgspec.Struct, frozen=True):
    seconds: float


class Now(msgspec.Struct, frozen=True):
    pass


class Act(msgspec.Struct, frozen=True):
    call: Callable[[], Any]


class Settle(msgspec.Struct, frozen=True):
    flow: Generator[Any, Any, Any]
    is_kept_up: bool = True  # also after a caller that was cancelled has gone


class Raised(msgspec.Struct, frozen=True):
    """What the caller's code, or a flow, raised. It is an answer: the flow may have something to do about it first."""

    error: BaseException
    came: Any = None  # what a flow still came to after its caller was cancelled


Step: TypeAlias = Send | Sleep | Now | Act | Settle
Answer: TypeAlias = Any
# What a step is answered with depends on the step; `send`, `sleep` and `now` below say it in types.
Flow: TypeAlias = Generator[Step, Any, T_co]


class Transport(Protocol):
    """Carries one request at a time to the service and blocks until it answers."""

    def send(self, request: Request) -> Response: ...
    def close(self) -> None: ...
    def in_loop(self) -> AsyncTransport: ...


class AsyncTransport(Protocol):
    """Carries requests to the service from an event loop."""

    async def send(self, request: Request) -> Response: ...
    async def close(self) -> None: ...
    def leave(self) -> None: ...


def send(request: Request, say: Say | None = None) -> Flow[Response]:
    """Yield one `Send` and return its `Response`. `say` is called if that takes longer than a second."""
    answer: Response = yield Send(request, say)
    return answer


def sleep(seconds: float) -> Flow[None]:
    """Yield one `Sleep`."""
    yield Sleep(seconds)


def now() -> Flow[float]:
    """Yield one `Now` and return the driver's time in seconds."""
    answer: float = yield Now()
    return answer


def act(call: Callable[[], Any]) -> Flow[Any]:
    """Yield one `Act` and return what the call returned, or a `Raised`."""
    answer: Any = yield Act(call)
    return answer


def settled(flow: Flow[T]) -> Flow[T]:
    """A flow that says how something ended. To lose it half way would leave a lease held, or an effect in doubt."""
    answer: Any = yield Settle(flow)
    if isinstance(answer, Raised):
        raise answer.error
    return answer


def taken(take: Flow[T], give_back: Callable[[T, BaseException], Flow[Any]]) -> Flow[T]:
    """A flow that takes something. Who is cancelled meanwhile gives back what was on its way."""
    answer: Any = yield Settle(take, is_kept_up=False)
    if not isinstance(answer, Raised):
        return answer
    if answer.came is not None:
        yield Settle(give_back(answer.came, answer.error))
    raise answer.error


def drive(flow: Flow[T], transport: Transport) -> T:
    """Run a flow to its result on this thread."""
    try:
        step = next(flow)
        while True:
            try:
                answer = _perform(step, transport)
            except TransportFailed as failure:
                step = flow.throw(failure)
            else:
                step = flow.send(answer)
    except StopIteration as done:
        return done.value
    finally:
        flow.close()


async def drive_async(flow: Flow[T], send_request: Callable[[Request], Awaitable[Response]]) -> T:
    """Run a flow to its result on the running event loop."""
    try:
        step = next(flow)
        while True:
            try:
                answer = await _perform_async(step, send_request)
            except TransportFailed as failure:
                step = flow.throw(failure)
            else:
                step = flow.send(answer)
    except StopIteration as done:
        return done.value
    finally:
        flow.close()


def _perform(step: Step, transport: Transport) -> Answer:
    match step:
        case Send(request, say):
            with _said_after_a_second(say):
                return transport.send(request)
        case Sleep(seconds):
            time.sleep(seconds)
            return None
        case Now():
            return time.monotonic()
        case Act(call):
            return _result_of(call)
        case Settle(flow):
            return _ended(flow, transport)


async def _perform_async(step: Step, send_request: Callable[[Request], Awaitable[Response]]) -> Answer:
    match step:
        case Send(request, say):
            import asyncio

            timer = asyncio.get_running_loop().call_later(SAY_AFTER_SECONDS, say) if say else None
            try:
                return await send_request(request)
            finally:
                if timer:
                    timer.cancel()
        case Sleep(seconds):
            import asyncio

            await asyncio.sleep(seconds)
            return None
        case Now():
            return time.monotonic()
        case Act(call):
            return await _awaited_result_of(call)
        case Settle(flow, is_kept_up):
            return await _ended_in_loop(drive_async(flow, send_request), is_kept_up=is_kept_up)


@contextmanager
def _said_after_a_second(say: Say | None) -> Generator[None]:
    if say is None:
        yield
        return
    import threading

    timer = threading.Timer(SAY_AFTER_SECONDS, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _result_of(call: Callable[[], Any]) -> Any:
    import inspect

    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whatever it raised, the flow decides what to do about it
        return Raised(error)
    if inspect.iscoroutine(result):
        result.close()
        return Raised(NothingRun("an async function needs an AsyncInterlock; nothing of it was run"))
    return result


async def _awaited_result_of(call: Callable[[], Any]) -> Any:
    import inspect

    try:
        result = call()
        return await result if inspect.isawaitable(result) else result
    except BaseException as error:  # noqa: BLE001 - as above
        return Raised(error)


def _ended(flow: Flow[Any], transport: Transport) -> Any:
    try:
        return drive(flow, transport)
    except BaseException as error:  # noqa: BLE001 - as above
        return Raised(error)


async def _ended_in_loop(driving: Coroutine[Any, Any, Any], *, is_kept_up: bool) -> Any:
    """How it ended. A caller that is cancelled meanwhile still waits a little for it."""
    import asyncio

    task = asyncio.ensure_future(driving)
    task.add_done_callback(
        lambda ended: ended.cancelled() or ended.exception()
    )  # read here, so that asyncio does not warn of an exception that no caller retrieved
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as cancelled:
        await asyncio.wait({task}, timeout=SETTLE_SECONDS_MAX)
        is_well = task.done() and not task.cancelled() and task.exception() is None
        if not is_kept_up:
            task.cancel()
        return Raised(cancelled, task.result() if is_well else None)
    except BaseException as error:  # noqa: BLE001 - as above
        return Raised(error)
