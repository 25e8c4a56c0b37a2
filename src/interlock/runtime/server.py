"""The server: the API behind uvicorn, with a graceful end.

On SIGTERM or SIGINT it stops accepting, finishes the requests it has read (each ends in a durable answer
or none), ends streams, and closes the store.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import cast

import uvicorn

from interlock.api.app import App
from interlock.api.asgi import AsgiApp
from interlock.api.assembly import assemble
from interlock.api.logs import Form, Level, Log
from interlock.runtime.keyring import Known
from interlock.runtime.operating import IssuedKey, activate_policy_file, bootstrap
from interlock.runtime.service import Service, open_service
from interlock.runtime.settings import Settings

Announce = Callable[[str, IssuedKey | None], None]


def serve(settings: Settings, announce: Announce) -> None:
    """Run until told to stop. `announce` gets the address and, on an empty store, the first admin key.

    Raises what kept the server from starting: a port in use, a store that cannot be opened, a bad policy.
    """
    listening = socket.create_server((settings.host, settings.port), backlog=2048)
    host, port = listening.getsockname()[:2]
    address = f"http://{host}:{port}"

    trouble: list[Exception] = []
    open_services: list[Service] = []

    @contextlib.asynccontextmanager
    async def opening() -> AsyncGenerator[App[Known, Service]]:
        async with contextlib.AsyncExitStack() as opened:
            try:
                service = await opened.enter_async_context(open_service(settings))
                admin = await bootstrap(service)
                if settings.policy:
                    await activate_policy_file(service, Path(settings.policy))
            except Exception as error:
                trouble.append(error)
                raise
            open_services.append(service)
            logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
            announce(address, admin)
            # What start-up made lives for ever; leaving it out of every collection keeps pauses short.
            gc.collect()
            gc.freeze()
            yield assemble(service, _log(settings))

    app = AsgiApp(opening, body_bytes_max=settings.body_bytes_max)

    def let_go() -> None:
        app.end_streams()
        for service in open_services:
            service.stop_waiting()

    server = _Server(_configuration(app, settings), let_go)
    # What goes wrong before the announcement is the caller's to tell, once.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    try:
        server.run(sockets=[listening])
    except SystemExit:
        if not trouble:
            raise
    if trouble:
        raise trouble[0]


class _Server(uvicorn.Server):
    """Lets go of those who only wait for news, then finishes the requests of the rest."""

    def __init__(self, config: uvicorn.Config, let_go: Callable[[], None]) -> None:
        super().__init__(config)
        self._let_go = let_go

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._let_go()
        await super().shutdown(sockets)


def _configuration(app: AsgiApp, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.drain_seconds) or 1,
    )


def _log(settings: Settings) -> Log:
    return Log(form=cast("Form", settings.log_format), level=cast("Level", settings.log_level))
