"""The pool of child processes in which a server runs slow computations, in fair turns between tenants.

Processes, not threads: the library behind policy expressions holds the interpreter's lock while it runs, so on a
thread it would stop the event loop as well (docs/decisions/0044). They are started when first needed and live as long
as the server. One that dies is replaced, and its computation is run once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from interlock.kernel.computation import Computation, NotComputed, TooLong, compute_here
from interlock.kernel.refusal import Fault, Overloaded, Refusal
from interlock.rooms.policy.expressions import OverBudget
from interlock.rooms.policy.judgement import TOO_LONG
from interlock.service.compute_child import CPU_SECONDS_MAX, HEADER, rebuilt
from interlock.service.metrics import Registry

_SMOOTHING = 0.2
_SECONDS_AT_FIRST = 0.1
_RETRY_SECONDS_MAX = 30.0


T = TypeVar("T")

PROCESSES_MAX = 2
WAITING_MAX = 256
WAITING_BYTES_MAX = 128 * 1024 * 1024
# In wall-clock time, for a process that uses no processor time, such as one that was stopped.
_SILENT_SECONDS_MAX = 60.0
_END_SECONDS = 2.0
_COMMAND = (sys.executable, "-P", "-m", "interlock.service.compute_child")


class TookTooLong(Refusal):
    """A computation used more processor time than it may."""

    def __init__(self) -> None:
        super().__init__(
            f"reading or evaluating this took more than {CPU_SECONDS_MAX:g} s of processor time; send less at once"
        )


class ComputePool:
    """Computes nothing until it is opened: in a program without a server, no other caller has to wait."""

    def __init__(self, registry: Registry) -> None:
        self.is_open = False
        self._turns = FairTurns(
            at_once=min(PROCESSES_MAX, os.cpu_count() or 1),
            waiting_max=WAITING_MAX,
            bytes_max=WAITING_BYTES_MAX,
        )
        self._thread_turns = FairTurns(at_once=1, waiting_max=WAITING_MAX, bytes_max=WAITING_BYTES_MAX)
        self._thread: ThreadPoolExecutor | None = None
        self._idle: list[_Child] = []
        self._working: set[_Child] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._outcomes = registry.counter(
            "interlock_computations_total",
            "Computed beside the event loop, by what came of it.",
            ("outcome",),
        )
        registry.gauge(
            "interlock_computations_waiting", "Waiting to be computed beside the event loop.", self._waiting
        )

    def open(self) -> None:
        """From now on the event loop is shared with others."""
        self.is_open = True

    async def run(self, tenant: str, weight: int, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of a module in another process; `weight` is roughly how many bytes it reads.

        Raises what the function raises, `Overloaded` if too much is waiting, and `TookTooLong` if it exceeds its
        time limit.
        """
        return await self._alone(self._turns, tenant, weight, self._called(function, arguments))

    async def run_on_thread(self, tenant: str, weight: int, function: Callable[..., T], *arguments: Any) -> T:
        """The same on a thread of this process, where the result has to be. It must not hold the interpreter long."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="compute")
        calling = asyncio.get_running_loop().run_in_executor
        return await self._alone(
            self._thread_turns, tenant, weight, lambda: calling(self._thread, function, *arguments)
        )

    async def close(self) -> None:
        """End the processes; callers that wait for them learn that nothing was decided."""
        self.is_open = False
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in (*self._idle, *self._working):
            await child.end()
        self._idle.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    # One computation.

    async def _alone(self, turns: FairTurns, tenant: str, weight: int, call: Callable[[], Any]) -> Any:
        """Run one computation in its turn and to its end, even if its caller leaves meanwhile."""
        task = asyncio.create_task(self._in_turn(turns, tenant, weight, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_heard)
        return await asyncio.shield(task)

    async def _in_turn(self, turns: FairTurns, tenant: str, weight: int, call: Callable[[], Any]) -> Any:
        try:
            async with turns.turn(tenant, weight):
                result = await call()
        except Overloaded:
            self._outcomes.add("overloaded")
            raise
        except TookTooLong:
            self._outcomes.add("too_long")
            raise
        self._outcomes.add("computed")
        return result

    def _called(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
        async def call() -> Any:
            message = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
            try:
                return await self._asked(message)
            except _Died:
                self._outcomes.add("process_died")
            try:
                return await self._asked(message)
            except _Died as died:
                raise Overloaded(f"a process that evaluates ended ({died}); nothing was decided") from died

        return call

    async def _asked(self, message: bytes) -> Any:
        try:
            child = self._idle.pop() if self._idle else await _Child.started()
        except OSError as error:
            raise Overloaded(
                f"no process could be started to evaluate this ({error}); nothing was decided"
            ) from error
        self._working.add(child)
        try:
            done, answer = pickle.loads(await child.ask(message))  # noqa: S301 - from a process of our own
        except BaseException:
            await child.end()
            raise
        else:
            self._idle.append(child)
        finally:
            self._working.discard(child)
        if done:
            return answer
        raise rebuilt(*answer)

    def _waiting(self) -> int:
        return self._turns.waiting + self._thread_turns.waiting


class _Died(Exception):
    """The process ended before it answered."""


class _Child:
    """One process, and the socket to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def started(cls) -> _Child:
        ours, theirs = socket.socketpair()
        with theirs:
            process = _started(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    async def ask(self, message: bytes) -> bytes:
        """The answer; `TookTooLong` or `_Died` if there is none."""
        try:
            async with asyncio.timeout(_SILENT_SECONDS_MAX):
                self._writer.write(HEADER.pack(len(message)))
                self._writer.write(message)
                await self._writer.drain()
                (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                return await self._reader.readexactly(length)
        except TimeoutError:
            raise _Died(f"silent for {_SILENT_SECONDS_MAX:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._ended()
            if code == -signal.SIGPROF:
                raise TookTooLong from None
            raise _Died(f"exit status {code}") from None

    async def end(self) -> None:
        self._writer.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._ended()

    async def _ended(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, _END_SECONDS)
        return None


def _started(stream: socket.socket) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C on a terminal is for the server, which ends it in its time.
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        _COMMAND, stdin=stream.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
    )


def _heard(task: asyncio.Task[Any]) -> None:
    """Read the outcome, so that asyncio does not warn of it if the caller has left."""
    if not task.cancelled():
        task.exception()


class FairTurns:
    """Fair turns between tenants: one that asks for much waits longer, and the others do not.

    However many calls one tenant has waiting, another tenant's next call waits for at most one of them per turn. A
    tenant may have `waiting_max` calls waiting, of `bytes_max` in all; calls beyond that are refused at once.
    """

    def __init__(self, *, at_once: int, waiting_max: int, bytes_max: int) -> None:
        self._free = at_once
        self._at_once = at_once
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        # Tenants in the order of their next turn.
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._seconds_each = _SECONDS_AT_FIRST

    @property
    def waiting(self) -> int:
        """How many calls wait for a turn."""
        return sum(len(line.waiting) for line in self._lines.values())

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str, weight: int) -> AsyncGenerator[None]:
        """Inside the block it is this call's turn. `Overloaded` if too much of the tenant's is waiting already."""
        await self._take(tenant, weight)
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._seconds_each += _SMOOTHING * (seconds - self._seconds_each)
            self._pass_on()

    async def _take(self, tenant: str, weight: int) -> None:
        if self._free:
            self._free -= 1
            return
        line = self._lines.get(tenant)
        if line and (len(line.waiting) >= self._waiting_max or line.weight + weight > self._bytes_max):
            raise self._overloaded(len(line.waiting))
        if line is None:
            line = self._lines[tenant] = _Line()
        its_turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.add(its_turn, weight)
        try:
            await its_turn
        except asyncio.CancelledError:
            if its_turn.done() and not its_turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a turn to the tenant who has waited longest for one; it goes behind the others then."""
        while self._lines:
            tenant, line = self._lines.popitem(last=False)
            its_turn = line.next()
            if line.waiting:
                self._lines[tenant] = line
            if its_turn is not None:
                its_turn.set_result(None)
                return
        self._free += 1

    def _overloaded(self, ahead: int) -> Overloaded:
        seconds = ahead * self._seconds_each * len(self._lines) / self._at_once
        return Overloaded(
            "too much work of this tenant that takes long to read or evaluate is waiting already; nothing was decided. "
            "Send less at once",
            retry_after_seconds=min(_RETRY_SECONDS_MAX, max(0.1, seconds)),
        )


class _Line:
    """What one tenant has waiting, first come first served."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.weight = 0

    def add(self, its_turn: asyncio.Future[None], weight: int) -> None:
        self.waiting.append((its_turn, weight))
        self.weight += weight

    def next(self) -> asyncio.Future[None] | None:
        """The next that still waits; those whose caller left are dropped."""
        while self.waiting:
            its_turn, weight = self.waiting.popleft()
            self.weight -= weight
            if not its_turn.done():
                return its_turn
        return None


KNOWN_MAX = 4096


class _Outcome(msgspec.Struct, frozen=True):
    """What came of a computation."""

    value: Any = None
    error: Exception | None = None


class Judgements:
    """The kernel's `Computing`: quick computations at once, others in the pool. The last results are kept by key."""

    def __init__(self, pool: ComputePool) -> None:
        self._pool = pool
        self._known: OrderedDict[Hashable, _Outcome] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[None]] = {}

    def compute(self, computation: Computation[Any]) -> Any:
        """The result if it is quick or known; else `NotComputed`."""
        if not self._pool.is_open:
            return compute_here(computation)
        try:
            return computation.quickly()
        except TooLong:
            known = self._known.get(computation.key())
        if known is None:
            raise NotComputed((computation,))
        if known.error is not None:
            raise known.error.with_traceback(None)
        return known.value

    async def answered(self, ask: Callable[[], T]) -> T:
        """What a question comes to that asks for computations but decides nothing."""
        while True:
            try:
                return ask()
            except NotComputed as missing:
                await self.prepare(missing.computations)

    async def prepare(self, computations: Sequence[Computation[Any]]) -> None:
        """Compute these, so that `compute` knows them. Computations under way are only waited for."""
        await asyncio.gather(*map(self._prepared, computations))

    async def _prepared(self, computation: Computation[Any]) -> None:
        key = computation.key()
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._keep(key, computation))
            task.add_done_callback(lambda done: self._ended(key, done))
        await asyncio.shield(task)

    def _ended(self, key: Hashable, done: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # The caller may have left; an exception that is never read would be logged.

    async def _keep(self, key: Hashable, computation: Computation[Any]) -> None:
        try:
            value = await self._computed(computation)
        except Fault:
            raise
        except TookTooLong:
            too_long = OverBudget(rule="policy", expression="", why=TOO_LONG)
            self._remember(key, _Outcome(error=too_long))
        except Exception as error:  # noqa: BLE001 - it is what the decision would have met
            self._remember(key, _Outcome(error=error))
        else:
            if computation.is_portable:
                self._remember(key, _Outcome(value=value))

    async def _computed(self, computation: Computation[Any]) -> Any:
        if computation.is_portable:
            return await self._pool.run(computation.tenant, computation.weight, compute_here, computation)
        return await self._pool.run_on_thread(
            computation.tenant, computation.weight, compute_here, computation
        )

    def _remember(self, key: Hashable, outcome: _Outcome) -> None:
        self._known[key] = outcome
        self._known.move_to_end(key)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
