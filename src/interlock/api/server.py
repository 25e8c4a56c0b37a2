"""`interlock serve`: runs the ASGI application on granian, and stops it gracefully.

On SIGTERM or SIGINT it stops accepting connections, finishes the requests it has taken (each gets a durable answer or
none), ends streams, and closes the store. A second signal ends it at once. With several workers, this process only
starts and watches them; a worker whose parent is gone ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import multiprocessing
import resource
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any, cast

import msgspec
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.embed import Server

from interlock.api.asgi import Asgi, InterlockApp, Torn
from interlock.api.heads import HEADER_BYTES_MAX
from interlock.service.logs import Level, taking_standard_logs
from interlock.service.operator import Greeting
from interlock.service.settings import BadSetting, Settings, host_and_port

# A decision makes some sixty containers and no cycles, so collecting every few hundred of them finds nothing.
_YOUNG_MAX = 20_000


def settle_memory() -> None:
    """Leave what start-up made out of every collection, and collect less often: call it once, when all is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, *gc.get_threshold()[1:])


Announce = Callable[[str, Greeting], None]

log = logging.getLogger(__name__)

_BACKLOG = 2048
# Most of a process's files may be connections; the store, the log and webhooks need some, too.
_OTHER_FILES = 128
_CONNECTIONS_MAX = 65_536
# More than any head within its limits; a head that goes on past it ends the connection.
_READ_BUFFER_BYTES = 64 * 1024
_START_SECONDS = 30.0
_RESTART_SECONDS = 1.0
_CLOSING_SECONDS = 5.0
# What granian tells goes to our log; it tells of every start that its embedded form is new.
_GRANIAN_LOGS = {"loggers": {"_granian": {"propagate": True}}, "handlers": {}, "formatters": {}}


def serve(settings: Settings, announce: Announce) -> None:
    """Run until told to stop. `announce` gets the address and what is shown once (`Greeting`).

    Raises what kept the server from starting: a port in use, a store that cannot be opened, a bad policy.
    """
    _allow_files()
    with _reserved(settings) as settings, _reserved_for_metrics(settings) as watched:
        if settings.workers > 1:
            asyncio.run(_supervise(settings, announce))
        else:
            asyncio.run(_serve(settings, announce, _Asked(), watched))


async def _serve(
    settings: Settings,
    announce: Announce,
    asked: _Asked,
    watched: Settings | None = None,
    *,
    is_worker: bool = False,
) -> None:
    """One server in this process. A worker process prints no greeting: its parent did."""
    app = InterlockApp(settings)
    asked.listen()
    with taking_standard_logs(app.log, cast("Level", settings.log_level)):
        # A client that finds the server listening finds its metrics, too: their address opens first and closes last.
        async with app.opened(first_admin=not is_worker) as greeting, _watched(app, watched):
            server = granian(app, settings)
            serving = asyncio.create_task(server.serve())
            await _until_listening(settings, serving)
            announce(_address(settings), greeting)
            settle_memory()
            await _first_of(serving, asyncio.create_task(asked.to_stop.wait()))
            app.stop_waiting()
            server.stop()
            await asked.unless_hurried(serving, settings.drain_seconds)


@contextlib.asynccontextmanager
async def _watched(app: InterlockApp, settings: Settings | None) -> AsyncGenerator[None]:
    """Show the figures of all tenants on an address of their own, if there is one."""
    if settings is None:
        yield
        return
    server = granian(app.metrics(), settings)
    serving = asyncio.create_task(server.serve())
    await _until_listening(settings, serving)
    app.log.event("info", "metrics_listening", address=_address(settings))
    try:
        yield
    finally:
        server.stop()
        await asyncio.wait({serving}, timeout=_CLOSING_SECONDS)
        serving.cancel()  # If it is done, that does nothing.


def granian(app: Asgi, settings: Settings) -> Server:
    """The server with the limits that are its to keep."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    for name in ("_granian", "_granian.serve"):
        logging.getLogger(name).addFilter(_is_news)
    return Server(
        answer,
        address=settings.host,
        port=settings.port,
        uds=Path(settings.uds) if settings.uds else None,
        interface=Interfaces.ASGINL,
        http=HTTPModes.auto if settings.http2 else HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_files_for_connections(),
        http1_settings=HTTP1Settings(
            header_read_timeout=max(1, int(settings.idle_seconds * 1000)), max_buffer_size=_READ_BUFFER_BYTES
        ),
        http2_settings=HTTP2Settings(
            max_headers_size=HEADER_BYTES_MAX,
            max_concurrent_streams=128,
            keep_alive_interval=max(1000, int(settings.idle_seconds * 1000)),
        ),
        log_dictconfig=_GRANIAN_LOGS,
        log_access=False,
        ssl_cert=Path(settings.tls_cert) if settings.tls_cert else None,
        ssl_key=Path(settings.tls_key) if settings.tls_key else None,
        ssl_ca=Path(settings.tls_client_ca) if settings.tls_client_ca else None,
        ssl_client_verify=bool(settings.tls_client_ca),
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of granian's says something that we have not said, and that an operator must know."""
    error = record.exc_info[1] if record.exc_info else None
    return record.levelno >= logging.ERROR and not isinstance(error, Torn)


def _allow_files() -> None:
    """Raise the limit of open files to the system's maximum: every connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _files_for_connections() -> int:
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files_max == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return min(_CONNECTIONS_MAX, max(files_max // 2, files_max - _OTHER_FILES))


# Where it listens.


@contextlib.contextmanager
def _reserved(settings: Settings) -> Generator[Settings]:
    """Hold the address for as long as the block lasts, so that a second server is told that it is in use.

    Granian lets several processes bind one port, which is how workers share it. Yields the settings with the port that
    was picked.
    """
    if settings.uds:
        _free_socket_file(Path(settings.uds))
        yield settings
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((settings.host, settings.port))
        port = held.getsockname()[1]
        if sys.platform == "linux":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:
            held.close()
        yield msgspec.structs.replace(settings, port=port)


@contextlib.contextmanager
def _reserved_for_metrics(settings: Settings) -> Generator[Settings | None]:
    """The same for the address of the metrics, if there is one: how the server there listens."""
    address = host_and_port(settings.metrics_address)
    if address is None:
        yield None
        return
    host, port = address
    with contextlib.ExitStack() as stack:
        wanted = Settings(host=host, port=port, idle_seconds=settings.idle_seconds)
        try:
            reserved = stack.enter_context(_reserved(wanted))
        except OSError as error:
            why = (error.strerror or str(error)).partition(" (")[0]
            wrong = f"cannot listen on the metrics_address {settings.metrics_address}: {why}; choose another"
            raise BadSetting(wrong) from error
        yield reserved


def _free_socket_file(path: Path) -> None:
    """Remove the socket of a server that died; raises OSError if one is listening there, or none can be made."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise OSError(98, "Address already in use")
    if path.exists():
        raise FileExistsError(17, "what is there is not a socket")
    # Granian panics where it cannot bind.
    with socket.socket(socket.AF_UNIX) as trying:
        trying.bind(str(path))
    path.unlink()


async def _until_listening(settings: Settings, serving: asyncio.Task[None]) -> None:
    """Return once connections are taken; raises what ended the server before that."""
    async with asyncio.timeout(_START_SECONDS):
        while not _takes_connections(settings):
            if serving.done():
                await serving
                raise OSError(f"granian ended before it listened on {_address(settings)}")
            await asyncio.sleep(0.01)


def _takes_connections(settings: Settings) -> bool:
    family = socket.AF_UNIX if settings.uds else socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as asking:
        asking.settimeout(1)
        try:
            asking.connect(settings.uds or (settings.host, settings.port))
        except OSError:
            return False
    return True


def _address(settings: Settings) -> str:
    if settings.uds:
        return f"unix:{settings.uds}"
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{settings.port}{settings.root_path}"


# When it stops.


class _Asked:
    """What signals have asked for so far."""

    def __init__(self) -> None:
        self.to_stop = asyncio.Event()
        self._to_hurry = asyncio.Event()

    def listen(self) -> None:
        """Hear SIGTERM and SIGINT from now on, and the end of the process that started this one."""
        loop = asyncio.get_running_loop()
        parent = multiprocessing.parent_process()
        # Ctrl-C reaches every process of a terminal; a worker's parent tells it in its own time.
        for number in (signal.SIGTERM,) if parent else (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.again)
        if parent is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sentinel = parent.sentinel
            loop.add_reader(sentinel, lambda: (loop.remove_reader(sentinel), self.again()))

    async def unless_hurried(self, work: asyncio.Task[Any], seconds: float) -> None:
        """Wait for the work until the time has passed or a second signal comes; then it is left unfinished."""
        hurrying = asyncio.create_task(self._to_hurry.wait())
        await asyncio.wait({work, hurrying}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        work.cancel()  # If it is done, that does nothing.
        with contextlib.suppress(asyncio.CancelledError):
            await work

    def again(self) -> None:
        (self._to_hurry if self.to_stop.is_set() else self.to_stop).set()


async def _first_of(*tasks: asyncio.Task[Any]) -> None:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


# With several workers.


async def _supervise(settings: Settings, announce: Announce) -> None:
    """Prepare the store, start the workers, announce them together, and start one again that dies."""
    asked = _Asked()
    asked.listen()
    async with InterlockApp(msgspec.structs.replace(settings, relay=False)).opened() as greeting:
        pass
    each = msgspec.structs.replace(settings, workers=1, policy="")
    workers = [_Worker(each) for _ in range(settings.workers)]
    try:
        for worker in workers:
            await worker.until_ready()
        announce(_address(settings), greeting)
        keeping = asyncio.create_task(_keep(workers, asked))
        await _first_of(keeping, asyncio.create_task(asked.to_stop.wait()))
    finally:
        for worker in workers:
            worker.stop()
    # Each has the same deadline, and a little time to close the store.
    await asked.unless_hurried(keeping, settings.drain_seconds + _CLOSING_SECONDS)


async def _keep(workers: list[_Worker], asked: _Asked) -> None:
    """Return when everything is to stop and all of them have ended."""
    await asyncio.gather(*(worker.keep(asked) for worker in workers))


class _Worker:
    """One server process of several."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._start()

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._ready, told = spawning.Pipe(duplex=False)
        self._process = spawning.Process(target=_work, args=(self._settings, told), daemon=True)
        self._process.start()
        told.close()

    async def until_ready(self) -> None:
        """Return once it listens; raises if it ended instead."""
        try:
            await asyncio.to_thread(self._ready.recv)
        except EOFError:
            await self.until_ended()
            raise OSError("a worker ended while it started; its log says why") from None

    async def keep(self, asked: _Asked) -> None:
        """Start it again whenever it ends, until everything is to stop."""
        await self.until_ended()
        while not asked.to_stop.is_set():
            log.error("a worker ended with %s; another one takes its place", self._process.exitcode)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asked.to_stop.wait(), _RESTART_SECONDS)
                return
            self._start()
            await self.until_ended()

    async def until_ended(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        sentinel = self._process.sentinel
        loop.add_reader(sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(sentinel)
        self._process.join()

    def stop(self) -> None:
        self._process.terminate()


def _work(settings: Settings, ready: Any) -> None:
    """One worker's process."""
    _allow_files()

    def announce(address: str, greeting: Greeting) -> None:
        ready.send(address)

    asyncio.run(_serve(settings, announce, _Asked(), is_worker=True))
