"""Everybody who is connected to a server, and what is being answered."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from interlock.api.app import App
from interlock.api.http import Request, Response
from interlock.api.metrics import Registry
from interlock.api.problem import Problem, problem
from interlock.api.wire import BODY_BYTES_MAX, HEADER_BYTES_MAX
from interlock.runtime.connection import Connection

KEEP_ALIVE_SECONDS = 75.0
STALLED_SECONDS = 30.0
LINGER_SECONDS = 10.0
# Most of a process's files may be connections; the store, the log and webhooks need some, too.
_OTHER_FILES = 128
_LINGER_SECONDS_STOPPING = 1.0


class Listening:
    """Makes connections to one app, for as long as its loop runs. The limits are every connection's."""

    def __init__(
        self,
        app: App[Any, Any],
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        header_bytes_max: int = HEADER_BYTES_MAX,
        stalled_seconds: float = STALLED_SECONDS,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        connections_max: int | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Needs a running event loop. What there is to count is counted in the registry.

        There may be as many connections as the process may open files, but for what it needs itself.
        """
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.body_bytes_max = body_bytes_max
        self.header_bytes_max = header_bytes_max
        self.stalled_seconds = stalled_seconds
        self.linger_seconds = LINGER_SECONDS
        self.connections: set[Connection] = set()
        registry = registry or Registry()
        registry.gauge("interlock_connections", "Open connections.", lambda: len(self.connections))
        registry.gauge(
            "interlock_requests_in_flight", "Requests that are being answered.", lambda: len(self._answering)
        )
        self.cut = registry.counter(
            "interlock_connections_cut_total",
            "Connections cut because their client read nothing for too long.",
        )
        self._answering: set[asyncio.Task[Response]] = set()
        self._streams: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._is_stopping = False
        self._connections_max = _files_for_connections() if connections_max is None else connections_max
        self._keep_alive_seconds = keep_alive_seconds
        self._tidying = self.loop.call_later(keep_alive_seconds / 4, self._end_silent)

    def connection(self) -> Connection:
        """One more connection; what `create_server` asks for."""
        return Connection(self)

    def met(self, connection: Connection) -> Problem | None:
        """A connection has begun; the problem if it is one too many."""
        self.connections.add(connection)
        if len(self.connections) <= self._connections_max:
            return None
        detail = (
            f"{self._connections_max} connections are open here, which is the most there can be; try again"
        )
        return problem("overloaded", detail)

    def lost(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        self._left.set()

    def answer(self, request: Request, tell: Callable[[Response], None], tear: Callable[[], None]) -> None:
        """Let the app respond, to the end whatever becomes of the client, and tell the connection.

        An app that breaks instead is torn off: who gets no answer must not wait for one.
        """

        def finish(answered: asyncio.Task[Response]) -> None:
            self._answering.discard(answered)
            try:
                tell(answered.result())
            except asyncio.CancelledError:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the client must learn that it was all
                tear()
                self.app.report(error, request)

        task = self.loop.create_task(self.app.respond(request))
        self._answering.add(task)
        task.add_done_callback(finish)

    def stream(self, sending: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Send a stream, until it ends or the server does."""
        task = self.loop.create_task(sending)
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        if self._is_stopping:
            task.cancel()
        return task

    def end_streams(self) -> None:
        """End every open stream: a server that is shutting down would otherwise wait for them."""
        for stream in self._streams:
            stream.cancel()

    async def drain(self, seconds: float) -> None:
        """Answer every request that was read whole, close every connection; cut what is left after that long."""
        self._tidying.cancel()
        self._is_stopping = True
        self.linger_seconds = _LINGER_SECONDS_STOPPING
        self.end_streams()
        for connection in tuple(self.connections):
            connection.end()
        try:
            async with asyncio.timeout(seconds):
                await self._until_empty()
        except TimeoutError:
            for connection in tuple(self.connections):
                connection.abort()

    async def _until_empty(self) -> None:
        while self.connections:
            self._left.clear()
            await self._left.wait()
        if self._answering:
            await asyncio.wait(self._answering)

    def _end_silent(self) -> None:
        since = self.loop.time() - self._keep_alive_seconds
        for connection in tuple(self.connections):
            connection.end_if_silent(since)
        self._tidying = self.loop.call_later(self._keep_alive_seconds / 4, self._end_silent)


def _files_for_connections() -> int:
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        sys.maxsize if files_max == resource.RLIM_INFINITY else max(files_max // 2, files_max - _OTHER_FILES)
    )
