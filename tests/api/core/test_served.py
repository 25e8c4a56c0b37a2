"""The core behind a real server, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn

from interlock.api.app import App
from interlock.api.asgi import AsgiApp
from tests.api.core.shelf import Service

PATIENCE = 30  # a hang guard


class Answered(NamedTuple):
    """A response as read from the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection, spoken to in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self.reader = reader
        self.writer = writer
        self._key = key

    def head(self, method: str, path: str, *headers: str) -> bytes:
        known = ("Host: test", f"Authorization: Bearer {self._key}", "Content-Type: application/json")
        return "\r\n".join((f"{method} {path} HTTP/1.1", *known, *headers, "", "")).encode()

    async def ask(self, method: str, path: str, body: bytes = b"") -> Answered:
        self.writer.write(self.head(method, path, f"Content-Length: {len(body)}") + body)
        return await self.answer()

    async def answer(self) -> Answered:
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answered(int(head[0].split()[1]), headers, body)


class Server(NamedTuple):
    """A running server."""

    port: int
    asgi: AsgiApp
    uvicorn: uvicorn.Server
    key: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Wire]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Wire(reader, writer, self.key)
        finally:
            writer.close()


@pytest.fixture
async def server(service: Service, key: str) -> AsyncIterator[Server]:
    @asynccontextmanager
    async def opening() -> AsyncIterator[App[Any, Any]]:
        yield service.app

    asgi = AsgiApp(opening)
    config = uvicorn.Config(asgi, port=0, http="httptools", lifespan="on", log_config=None, access_log=False)
    running = uvicorn.Server(config)
    serving = asyncio.create_task(running.serve())
    async with asyncio.timeout(PATIENCE):
        while not running.started:
            await asyncio.sleep(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        yield Server(port, asgi, running, key)
        service.shelf.go_on.set()
        running.should_exit = True
        await serving


async def test_a_request_is_answered_and_the_connection_kept(server: Server) -> None:
    async with server.connected() as wire:
        for name in ("vase", "bowl"):
            answered = await wire.ask("POST", "/api/v1/things", json.dumps({"name": name}).encode())
            assert (answered.status, json.loads(answered.body)["name"]) == (201, name)


async def test_an_encoded_slash_stays_inside_its_segment(server: Server) -> None:
    async with server.connected() as wire:
        answered = await wire.ask("GET", "/api/v1/things/repo%3Abilling%2Finvoice.py")
        assert json.loads(answered.body)["id"] == "repo:billing/invoice.py"


async def test_fifty_mebibytes_are_refused_at_once_and_the_connection_stays_sane(
    server: Server, service: Service
) -> None:
    size = 50 * 1024 * 1024
    async with server.connected() as wire:
        wire.writer.write(wire.head("POST", "/api/v1/things", f"Content-Length: {size}"))
        answered = await wire.answer()
        assert (answered.status, json.loads(answered.body)["code"]) == (413, "too_large")
        for _ in range(50):
            wire.writer.write(b" " * 1024 * 1024)
            await wire.writer.drain()
        assert (await wire.ask("POST", "/api/v1/things", b'{"name":"after"}')).status == 201
    assert len(service.shelf.placed) == 1


async def test_a_body_of_unannounced_length_is_refused_once_it_is_too_large(
    server: Server, service: Service
) -> None:
    async with server.connected() as wire:
        wire.writer.write(wire.head("POST", "/api/v1/things", "Transfer-Encoding: chunked"))
        for _ in range(20):
            wire.writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await wire.writer.drain()
        assert (await wire.answer()).status == 413
        wire.writer.write(b"0\r\n\r\n")
        assert (await wire.ask("GET", "/healthz")).status == 200
    assert service.shelf.placed == []


async def test_a_client_that_hangs_up_does_not_tear_off_its_decision(
    server: Server, service: Service
) -> None:
    async with server.connected() as wire:
        wire.writer.write(wire.head("POST", "/api/v1/slow", "Content-Length: 0"))
        await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
        wire.writer.transport.abort()
    service.shelf.go_on.set()
    async with asyncio.timeout(PATIENCE):
        while service.shelf.placed != ["finished"]:
            await asyncio.sleep(0.01)


async def test_a_stream_ends_when_its_reader_hangs_up(server: Server, service: Service) -> None:
    async with server.connected() as wire:
        wire.writer.write(wire.head("GET", "/api/v1/stream"))
        await asyncio.wait_for(wire.reader.readuntil(b"data: 1\n\n"), PATIENCE)
    await asyncio.wait_for(service.shelf.closed.wait(), PATIENCE)


async def test_a_server_that_stops_ends_its_streams_and_finishes_what_it_accepted(
    server: Server, service: Service
) -> None:
    async with server.connected() as streaming, server.connected() as asking:
        streaming.writer.write(streaming.head("GET", "/api/v1/stream"))
        await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
        service.shelf.started.clear()
        asking.writer.write(asking.head("POST", "/api/v1/slow", "Content-Length: 0"))
        await asyncio.wait_for(service.shelf.started.wait(), PATIENCE)
        server.uvicorn.should_exit = True
        server.asgi.end_streams()
        rest = await asyncio.wait_for(streaming.reader.readuntil(b"0\r\n\r\n"), PATIENCE)
        assert b"data: 1" in rest
        service.shelf.go_on.set()
        assert (await asking.answer()).status == 200
