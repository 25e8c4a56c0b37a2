"""The ASGI application by itself: what breaks is logged, and never looks like a whole answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from interlock.api.asgi import InterlockApp, Torn
from interlock.service.logs import Log
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store.memory import MemoryStore
from interlock.wire.http import Request, Response


class Server:
    """A server that asks once, and keeps what it is given."""

    def __init__(self, app: InterlockApp, lines: list[str]) -> None:
        self.app = app
        self.lines = lines
        self.sent: list[dict[str, Any]] = []

    def answer_with(self, response: Response | Exception) -> None:
        """Have the routes answer so, whatever they are asked."""

        async def respond(_: Request) -> Response:
            if isinstance(response, Exception):
                raise response
            return response

        self.app._open._app.respond = respond  # type: ignore[union-attr,method-assign] # pyright: ignore

    async def ask(self, path: str = "/healthz") -> None:
        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", b"a")], "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()  # the client stays

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def is_finished(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", self.sent[-1]["type"].endswith("start"))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    lines: list[str] = []
    app = InterlockApp(settings_from({}, store="memory:"), Log(write=lines.append))
    async with _service() as service:
        with app.answering(service):
            yield Server(app, lines)


@contextlib.asynccontextmanager
async def _service() -> AsyncIterator[Service]:
    service = Service(MemoryStore(), settings_from({}))
    await service.open(sweeping=False)
    try:
        yield service
    finally:
        await service.close()


async def test_a_stream_that_breaks_is_torn_off_and_logged(server: Server) -> None:
    async def broken() -> AsyncGenerator[bytes]:
        yield b"data: 1\n\n"
        raise LookupError("nobody expected this")

    server.answer_with(Response(status=200, stream=broken()))
    with pytest.raises(Torn):
        await server.ask()
    assert not server.is_finished
    assert any('"fault"' in line and "LookupError" in line for line in server.lines)


async def test_an_answer_that_cannot_be_sent_is_not_begun(server: Server) -> None:
    server.answer_with(Response(status=200, headers=(("location", "a\r\nb"),), body=b"x"))
    with pytest.raises(Torn, match="end its line"):
        await server.ask()
    assert server.sent == []


async def test_a_fault_of_ours_is_not_told_as_the_clients(server: Server) -> None:
    server.answer_with(LookupError("no answer"))
    with pytest.raises(LookupError):  # which the server logs, and ends the connection
        await server.ask()
    assert server.sent == []


async def test_a_long_answer_goes_out_in_pieces_and_is_whole(server: Server) -> None:
    server.answer_with(Response(status=200, body=b"y" * 200_000))
    await server.ask()
    assert b"".join(message.get("body", b"") for message in server.sent) == b"y" * 200_000
    assert len(server.sent) > 3
    assert server.is_finished


async def test_a_request_before_it_is_open_says_what_to_do() -> None:
    app = InterlockApp(settings_from({}, store="memory:"), Log(level="error"))
    with pytest.raises(RuntimeError, match="lifespan"):
        await Server(app, []).ask()


async def test_a_server_that_runs_lifespans_opens_and_closes_it() -> None:
    app = InterlockApp(settings_from({}, store="memory:"), Log(level="error"))
    told: list[str] = []
    server = Server(app, [])

    async def receive() -> dict[str, Any]:
        if told:
            await server.ask()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        told.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert json.loads(server.sent[-1]["body"]) == {"status": "ok"}


async def test_a_lifespan_that_cannot_begin_tells_the_server_why() -> None:
    app = InterlockApp(settings_from({}, store="sqlite:////proc/nowhere/a.db"), Log(level="error"))
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        told.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in told] == ["lifespan.startup.failed"]
    assert told[0]["message"]
