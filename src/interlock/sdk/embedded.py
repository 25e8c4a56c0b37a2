"""The service in this process: no server, no sockets; the store is opened here.

The service runs on its own event loop, in a daemon thread that starts with the first call. The blocking and the async
client share it, so the program's own loop cannot stall it, and all clients of one store share one service. A forked
child opens its own service: threads do not survive a fork, and neither side may touch the other's database handles.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Protocol

from interlock.sdk.flow import Request, Response, TransportFailed
from interlock.sdk.outcomes import NoStore, Unavailable, no_answer, no_store
from interlock.service.local_kernel import LoopThread, in_daemon_thread
from interlock.service.settings import embedded_store

if TYPE_CHECKING:
    from interlock.wire import http

CLOSE_SECONDS_MAX = 30.0
FILE = "sqlite:///"
MEMORY = ("memory:", "memory://")


class Service(Protocol):
    """What `interlock.api.embedded.open_embedded` returns."""

    async def respond(self, request: http.Request) -> http.Response: ...
    async def close(self) -> None: ...


class EmbeddedTransport:
    """Calls the service on its loop and blocks until it answers."""

    def __init__(self, store: str | None, *, makes_store: bool = True) -> None:
        self._place = _Place(store, makes_store=makes_store)

    def send(self, request: Request) -> Response:
        """Carry one request."""
        host = self._place.opened(request)
        if host.is_here:
            # A finalizer runs on whichever thread finds the garbage.
            raise Unavailable(no_answer("the embedded service cannot be called from its own thread"))
        submitted = host.submit(request)
        try:
            return submitted.result()
        except BaseException:
            submitted.cancel()
            raise

    def close(self) -> None:
        """Let go of the service; the last client of a store closes it. A later call opens it again."""
        self._place.leave()

    def in_loop(self) -> AsyncEmbeddedTransport:
        """The way to the same service from an event loop, also if it is in memory; closed by itself."""
        return AsyncEmbeddedTransport(None, _Place(None, beside=self._place))


class AsyncEmbeddedTransport:
    """Calls the service on its loop while the program's own loop goes on."""

    def __init__(self, store: str | None, place: _Place | None = None, *, makes_store: bool = True) -> None:
        self._place = place or _Place(store, makes_store=makes_store)

    async def send(self, request: Request) -> Response:
        """Carry one request."""
        host = self._place.host or await in_daemon_thread(partial(self._place.opened, request))
        return await asyncio.wrap_future(host.submit(request))

    async def close(self) -> None:
        """Let go of the service; the last client of a store closes it. A later call opens it again."""
        await in_daemon_thread(self.leave)

    def leave(self) -> None:
        """The same, for a caller without a loop."""
        self._place.leave()


class _Host:
    """One open service and its loop."""

    def __init__(self, store: str, *, makes_store: bool) -> None:
        self.places: set[_Place] = set()
        self.closed = False
        self._loop = LoopThread("interlock-embedded")
        try:
            self._service = self._loop.run(_open(store, makes_store))
        except BaseException:
            self._loop.stop()
            raise

    @property
    def is_here(self) -> bool:
        return self._loop.is_here

    def submit(self, request: Request) -> Future[Response]:
        return self._loop.submit(_respond(self._service, request))

    def close(self) -> None:
        self.closed = True
        try:
            self._loop.run(self._service.close(), CLOSE_SECONDS_MAX)
        finally:
            self._loop.stop()


class _Place:
    """One client's place at the service of its store, taken with its first call."""

    def __init__(self, store: str | None, beside: _Place | None = None, *, makes_store: bool = True) -> None:
        """`beside` is another client's place; this one is at the same service."""
        # A client's store is where the client was made, whatever folder the program goes to later.
        self.store = beside.store if beside else _from_here(store or embedded_store())
        self.makes_store = beside.makes_store if beside else makes_store
        # A store in memory belongs to one client; a file or a database is shared.
        self.name: object = beside.name if beside else self if store in MEMORY else self.store
        self._host: _Host | None = None
        self._pid = os.getpid()

    @property
    def host(self) -> _Host | None:
        """The service, if this process has it open."""
        host = self._host if self._pid == os.getpid() else None
        return None if host is None or host.closed else host

    def opened(self, request: Request) -> _Host:
        """The service, opened if need be; blocks while it opens. A read makes no store."""
        host = self.host
        if host is not None:
            return host
        with _registry.lock:
            if _registry.is_over:
                raise Unavailable(
                    no_answer("the program is ending, and its embedded service has ended before it")
                )
            host = _registry.hosts.get(self.name)
            if host is None:
                makes = self.makes_store and not request.only_asks
                host = _registry.hosts[self.name] = _Host(self.store, makes_store=makes)
            host.places.add(self)
            self._host, self._pid = host, os.getpid()
            return host

    def leave(self) -> None:
        """Give the place up, and close the service if it was the last."""
        host, self._host = self.host, None
        if host is None:
            return
        with _registry.lock:
            host.places.discard(self)
            if host.places:
                return
            _registry.hosts.pop(self.name, None)
        host.close()


class _Registry:
    """The services that this process has open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hosts: dict[object, _Host] = {}
        self.is_over = False

    def forget(self) -> None:
        """In a forked child: what is open belongs to the parent."""
        self.__init__()

    def close(self) -> None:
        """At the end of the program, when all of its threads but the daemons are through."""
        with self.lock:
            self.is_over = True
            hosts, self.hosts = list(self.hosts.values()), {}
        for host in hosts:
            host.close()


_registry = _Registry()
os.register_at_fork(after_in_child=_registry.forget)
atexit.register(_registry.close)


def _from_here(store: str) -> str:
    """A store by its whole path, if it is a file."""
    if not store.startswith(FILE):
        return store
    with contextlib.suppress(OSError):  # this folder is gone; a whole path needs none
        return FILE + os.path.abspath(store.removeprefix(FILE))  # noqa: PTH100 - text in, text out
    return store


async def _open(store: str, makes_store: bool) -> Service:
    from interlock.api.embedded import open_embedded
    from interlock.kernel.storage import NotAStore, StoreDown, StoreMissing

    try:
        return await open_embedded(store, makes_store=makes_store)
    except StoreMissing as missing:
        raise NoStore(no_store("no_store", str(missing))) from missing
    except NotAStore as foreign:
        raise NoStore(no_store("not_a_store", str(foreign))) from foreign
    except (StoreDown, OSError) as error:
        raise TransportFailed(
            f"the store could not be opened: {error}", may_have_been_received=False
        ) from error


async def _respond(service: Service, request: Request) -> Response:
    try:
        async with asyncio.timeout(request.timeout_seconds):
            return _answered(await service.respond(_asked(request)))
    except TimeoutError as error:
        raise TransportFailed("no answer in time", may_have_been_received=True) from error


def _asked(request: Request) -> http.Request:
    from interlock.wire import http

    return http.Request(
        method=request.method,
        path=request.path,
        query=request.query,
        headers=request.headers,
        body=request.body,
    )


def _answered(answer: http.Response) -> Response:
    return Response(status=answer.status, headers=dict(answer.headers), body=answer.body)
