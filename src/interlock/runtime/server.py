"""The server: the API on a socket, with a graceful end.

On SIGTERM or SIGINT it stops accepting, finishes the requests it has read (each ends in a durable answer
or none), ends streams, and closes the store. Told a second time, it waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import uvloop

from interlock.api.assembly import assemble, assemble_metrics
from interlock.api.logs import Form, Level, Log, taking_standard_logs
from interlock.runtime.listening import Listening
from interlock.runtime.memory import settle_memory
from interlock.runtime.operating import IssuedKey, activate_policy_file, bootstrap
from interlock.runtime.service import Service, open_service
from interlock.runtime.settings import BadSetting, Settings, host_and_port

Announce = Callable[[str, IssuedKey | None], None]

_BACKLOG = 2048


def serve(settings: Settings, announce: Announce) -> None:
    """Run until told to stop. `announce` gets the address and, on an empty store, the first admin key.

    Raises what kept the server from starting: a port in use, a store that cannot be opened, a bad policy.
    """
    listening = _socket(settings.host, settings.port)
    watching = _watching_socket(settings.metrics_address)
    _allow_files()
    level = cast("Level", settings.log_level)
    log = Log(form=cast("Form", settings.log_format), level=level)
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with listening, watching or contextlib.nullcontext(), taking_standard_logs(log, level), runner:
        runner.run(_serve(settings, log, listening, watching, announce))


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _allow_files() -> None:
    """Take as many files as the system allows: every connection is one, and the usual limit is a courtesy."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(
    settings: Settings,
    log: Log,
    listening: socket.socket,
    watching: socket.socket | None,
    announce: Announce,
) -> None:
    asked = _Asked()
    async with _opened(settings) as (service, admin):
        clients = Listening(
            assemble(service, log),
            body_bytes_max=settings.body_bytes_max,
            stalled_seconds=settings.stalled_seconds,
            registry=service.registry,
        )
        accepting = await clients.loop.create_server(clients.connection, sock=listening, backlog=_BACKLOG)
        announce(_address(listening), admin)
        settle_memory()
        async with _watched(service, log, watching):
            await asked.to_stop.wait()
        accepting.close()
        service.stop_waiting()
        await asked.unless_hurried(clients.drain(settings.drain_seconds))


def _watching_socket(address: str) -> socket.socket | None:
    watched = host_and_port(address)
    try:
        return _socket(*watched) if watched else None
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (")[0]
        raise BadSetting(f"cannot listen on the metrics_address {address}: {why}; choose another") from error


@contextlib.asynccontextmanager
async def _watched(service: Service, log: Log, watching: socket.socket | None) -> AsyncGenerator[None]:
    """Show the figures of all tenants on an address of their own, if there is one."""
    if watching is None:
        yield
        return
    clients = Listening(assemble_metrics(service, log))
    accepting = await clients.loop.create_server(clients.connection, sock=watching, backlog=_BACKLOG)
    log.event("info", "metrics_listening", address=_address(watching))
    try:
        yield
    finally:
        accepting.close()
        await clients.drain(0)


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[tuple[Service, IssuedKey | None]]:
    """The service, with whatever an empty store needs, and the key of its first admin if it was made now."""
    async with open_service(settings, relaying=True) as service:
        admin = await bootstrap(service)
        if settings.policy:
            await activate_policy_file(service, Path(settings.policy))
        yield service, admin


class _Asked:
    """What signals have asked for so far."""

    def __init__(self) -> None:
        self.to_stop = asyncio.Event()
        self._to_hurry = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._again)

    async def unless_hurried(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish the work, or leave it when asked again."""
        working, hurrying = asyncio.create_task(work), asyncio.create_task(self._to_hurry.wait())
        await asyncio.wait({working, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        working.cancel()  # If it is done, that does nothing.
        with contextlib.suppress(asyncio.CancelledError):
            await working

    def _again(self) -> None:
        (self._to_hurry if self.to_stop.is_set() else self.to_stop).set()
