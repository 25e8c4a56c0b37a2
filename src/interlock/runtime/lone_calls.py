"""Calls of the embedded service that are answered on the thread that makes them.

To go to the service's loop, from there to the thread that commits, and back again costs more than most decisions. Many
callers share that price with a commit; one alone pays all of it. So a call that nobody is beside, and that waits for
nothing but the file, is decided right here, by the same operations, over a connection of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar, cast

from interlock.api.assembly import Authenticate, assemble
from interlock.api.http import Request, Response
from interlock.api.logs import Log
from interlock.api.metrics import Registry
from interlock.kernel.command import Command
from interlock.kernel.kernel import Kernel
from interlock.kernel.record import Kind, Record
from interlock.kernel.refusal import Fault, Refusal, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.runtime import blocking
from interlock.runtime.measures import Measures
from interlock.runtime.permits import PermitSigner
from interlock.runtime.service import Service
from interlock.store.contract import Store
from interlock.store.sqlite import fork_guard as forking
from interlock.store.sqlite.driver import FAILED
from interlock.store.sqlite_blocking import BlockingSqlite

T = TypeVar("T")
R = TypeVar("R", bound=Record)
Opened = Callable[[], BlockingSqlite]

# For so long after another thread has called, callers share batches: they would wait for each other's commits.
_COMPANY_SECONDS = 0.1
# How much longer than for the lock a call may wait: for what another process has promised, or for a lost COMMIT.
_SETTLING_SECONDS = 2.0
_CLOSE_SECONDS_MAX = 10.0
_SIGNALS = tuple(map(int, signal.valid_signals()))
# The one of `signal` makes an enum of each answer: 50 µs a call for all of them, and not 3.
_getsignal: Callable[[int], object] = import_module("_signal").getsignal


class LoneCalls:
    """A second way to an open service, for one thread at a time."""

    def __init__(self, service: Service, who: Authenticate, loop: asyncio.AbstractEventLoop) -> None:
        self._url = service.settings.store
        # Nobody can call off what is waited for here.
        self._acquire_seconds = service.settings.acquire_seconds
        self._seconds_max = self._acquire_seconds + _SETTLING_SECONDS
        self._turn = threading.Lock()
        self._inside: int | None = None
        self._last = 0
        self._called_at = self._company_until = float("-inf")
        self._file: BlockingSqlite | None = None
        self._is_closed = not self._url.startswith(blocking.FILE)
        here = copy.copy(service)
        # Nothing that is locked for a moment is shared with the loop: a finalizer may call while this thread has it.
        here.registry = Registry()
        here.measures = Measures(here.registry)
        # Operations that need no loop ask a kernel for `run`, and a store for `get`.
        here.kernel = cast("Kernel", _KernelHere(service.kernel, loop, self._opened))
        here.store = cast("Store", _StoreHere(service.store, loop, self._opened))
        # Nobody tells it of a rotation, so it looks each time.
        here.permits = PermitSigner(here.kernel, here.store, service.settings.secret, recent_seconds=0.0)
        self._app = assemble(here, Log(level="error"), who=who)
        forking.watch_blocking(self)

    def respond(self, request: Request, timeout_seconds: float) -> Response | None:
        """The answer, or None if the call has to take the service's own way."""
        if self._is_closed or self._has_company() or timeout_seconds < self._seconds_max:
            return None
        if self._turn.locked() or not self._app.is_loopless(request) or _has_handlers():
            return None
        # Not `acquire` and `release`: an interrupt between the two must not leave it locked.
        with self._turn:
            return None if self._is_closed else self._answer(request)

    def note(self) -> None:
        """This thread calls the service in its own way."""
        self._has_company()
        self._step_aside()

    def close(self) -> None:
        """From now on every call takes the service's own way."""
        forking.unwatch_blocking(self)
        if self._is_closed:
            return
        self._is_closed = True
        if not self._step_aside() and self._turn.acquire(timeout=_CLOSE_SECONDS_MAX):
            self._let_go()
            self._turn.release()

    def stand_still(self, seconds: float) -> bool:
        """Close the file and let nobody in until `go_on`; False if there is nothing to go on with."""
        if self._step_aside() or not self._turn.acquire(timeout=seconds):
            return False
        self._let_go()
        return True

    def go_on(self) -> None:
        """The fork is over."""
        self._turn.release()

    def _answer(self, request: Request) -> Response:
        self._inside = threading.get_ident()
        try:
            return _driven(self._app.respond(request))
        except BaseException:
            # Interrupted, perhaps in a transaction, and nobody knows when the next call comes to end it.
            self._let_go()
            raise
        finally:
            self._inside = None

    def _has_company(self) -> bool:
        """Whether another thread called a moment ago. To be wrong costs time, so nothing is locked for it."""
        me, now = threading.get_ident(), time.monotonic()
        if self._last != me and now < self._called_at + _COMPANY_SECONDS:
            self._company_until = now + _COMPANY_SECONDS
        self._last, self._called_at = me, now
        return now < self._company_until

    def _step_aside(self) -> bool:
        """Whether this very thread is in the middle of a call: then a finalizer runs, and the call waits for it.

        What the finalizer asks for must not wait for the call in turn, so that one gives up its transaction. It finds
        its connection closed, and leaves its command to the kernel unless it is committed.
        """
        is_inside = self._inside == threading.get_ident()
        if is_inside:
            self._let_go()
        return is_inside

    def _opened(self) -> BlockingSqlite:
        file = self._file
        if file is None:
            file = self._file = blocking.file_of(
                self._url, opening_seconds=self._acquire_seconds, copies_beside=True
            )
        if file is None:
            raise StoreDown("the database file is not there, or not as it should be")
        return file

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # One that is in the middle of a statement cannot be closed; it is with whoever forgets it last.
            with contextlib.suppress(FAILED):
                file.close()


class _KernelHere:
    """Decides on this thread; what that cannot do, the kernel does on its loop."""

    def __init__(self, kernel: Kernel, loop: asyncio.AbstractEventLoop, opened: Opened) -> None:
        self._kernel = kernel
        self._loop = loop
        self._opened = opened

    async def run(self, command: Command[T], *, weight: int = 0, acquire_seconds: float | None = None) -> T:
        seconds = self._kernel.limits.acquire_seconds if acquire_seconds is None else acquire_seconds
        try:
            result, woken = blocking.decide(self._opened(), command, seconds)
        except (Refusal, Fault):
            raise
        except Exception:  # noqa: BLE001 - whatever it was, nothing was written, and the kernel knows what to do
            running = self._kernel.run(command, weight=weight, acquire_seconds=acquire_seconds)
            return _awaited(running, self._loop)
        if self._kernel.wakes.is_awaited(woken):
            self._loop.call_soon_threadsafe(self._kernel.wakes.publish, woken)
        return result


class _StoreHere:
    """Reads on this thread; what that cannot do, the store does on its loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, opened: Opened) -> None:
        self._store = store
        self._loop = loop
        self._opened = opened

    async def get(self, kind: Kind[R], tenant: str, record_id: str) -> R | None:
        try:
            return self._opened().get(kind, tenant, record_id)
        except Exception:  # noqa: BLE001 - as above
            return _awaited(self._store.get(kind, tenant, record_id), self._loop)


def _has_handlers() -> bool:
    """Whether something of the program's may run in the middle of what this thread does, and call or raise anything.

    Signals are handled on the main thread. That Ctrl-C raises KeyboardInterrupt there is bearable.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    usual = _getsignal(signal.SIGINT) is signal.default_int_handler
    return sum(map(callable, map(_getsignal, _SIGNALS))) > usual


def _awaited(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    try:
        awaited = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError as error:
        coroutine.close()
        raise StoreUnavailable("the embedded service was closed meanwhile; repeat the call") from error
    return awaited.result()


def _driven(answering: Coroutine[Any, Any, Response]) -> Response:
    """Run to its end what waits for nothing."""
    try:
        answering.send(None)
    except StopIteration as done:
        return cast("Response", done.value)
    answering.close()
    raise RuntimeError("an operation that is to need no event loop waited for something")
