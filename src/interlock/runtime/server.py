"""The server: the API behind uvicorn, with a graceful end.

On SIGTERM or SIGINT it stops accepting, finishes the requests it has read (each ends in a durable answer
or none), ends streams, and closes the store.
"""

from __future__ import annotations

import contextlib
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
from interlock.runtime.memory import settle_memory
from interlock.runtime.operating import IssuedKey, activate_policy_file, bootstrap
from interlock.runtime.protocol import protocol_for
from interlock.runtime.service import Service, open_service
from interlock.runtime.settings import Settings

Announce = Callable[[str, IssuedKey | None], None]


def serve(settings: Settings, announce: Announce) -> None:
    """Run until told to stop. `announce` gets the address and, on an empty store, the first admin key.

    Raises what kept the server from starting: a port in use, a store that cannot be opened, a bad policy.
    """
    listening = socket.create_server((settings.host, settings.port), backlog=2048)
    host, port = listening.getsockname()[:2]
    opening = _Opening(settings, lambda admin: announce(f"http://{host}:{port}", admin))
    app = AsgiApp(opening.opened, body_bytes_max=settings.body_bytes_max)

    def let_go() -> None:
        app.end_streams()
        if opening.service is not None:
            opening.service.stop_waiting()

    # What goes wrong before the announcement is the caller's to tell, once.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    try:
        _Server(_configuration(app, settings), let_go).run(sockets=[listening])
    except SystemExit:
        if opening.trouble is None:
            raise
    if opening.trouble is not None:
        raise opening.trouble


class _Opening:
    """Opens the service when uvicorn asks for it. `trouble` is what kept it from opening."""

    def __init__(self, settings: Settings, announce: Callable[[IssuedKey | None], None]) -> None:
        self.service: Service | None = None
        self.trouble: Exception | None = None
        self._settings = settings
        self._announce = announce

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncGenerator[App[Known, Service]]:
        """The app over the service, while both are open."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                service = await stack.enter_async_context(open_service(self._settings, relaying=True))
                admin = await bootstrap(service)
                if self._settings.policy:
                    await activate_policy_file(service, Path(self._settings.policy))
            except Exception as error:
                self.trouble = error
                raise
            self.service = service
            logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
            self._announce(admin)
            settle_memory()
            yield assemble(service, _log(self._settings))


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
        http=protocol_for(settings.stalled_seconds),
        ws="none",
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
