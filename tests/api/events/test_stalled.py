"""Clients that stop reading their socket are cut off, and miss nothing when they come back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator

import msgspec

from interlock.api.asgi import InterlockApp
from interlock.api.server import granian
from interlock.service.logs import Log
from interlock.service.metrics import Registry
from interlock.service.settings import Settings
from tests.api.events.api_client import Client, client_of
from tests.api.events.event_stream import parse
from tests.harness.processes import pick_port
from tests.service.relay_service import RelayService, relaying_service

PATIENCE = 60  # a hang guard
BUFFER_BYTES = 4096
SUBJECT = "s" * 4000
MANY = 2000  # more than any buffers on the way hold


@contextlib.asynccontextmanager
async def served(relay_service: RelayService, stalled_seconds: float) -> AsyncGenerator[int]:
    """The service of the relays behind the server that `interlock serve` uses; yields the port."""
    settings = Settings(port=pick_port(), stalled_seconds=stalled_seconds)
    relay_service.service.settings = msgspec.structs.replace(
        relay_service.service.settings, stalled_seconds=stalled_seconds
    )
    relay_service.service.registry = (
        Registry()
    )  # the relay_service has an application already, which counts in its own
    app = InterlockApp(settings, Log(level="error"))
    server = granian(app, settings)
    with app.answering(relay_service.service):
        serving = asyncio.create_task(server.serve())
        await asyncio.sleep(0.5)
        try:
            yield settings.port
        finally:
            server.stop()
            await asyncio.wait_for(serving, PATIENCE)


class Reading:
    """One client's connection, read only when asked to. `seen` holds the positions of the events it has read."""

    def __init__(self, raw: socket.socket) -> None:
        self.seen: list[int] = []
        self._raw = raw
        self._text = ""

    async def read(self, up_to: int) -> None:
        """Read until an event has the position `up_to`, or the connection ends."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while up_to not in self.seen and (piece := await loop.sock_recv(self._raw, BUFFER_BYTES)):
                    *whole, self._text = (self._text + piece.decode()).split("\n\n")
                    blocks = [parse(block) for block in whole]
                    self.seen += [int(block.id) for block in blocks if block.id and block.data]


@contextlib.asynccontextmanager
async def streaming(port: int, client: Client, last: int) -> AsyncGenerator[Reading]:
    """A client that has asked for the stream after `last`, with a small buffer of its own."""
    loop = asyncio.get_running_loop()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        raw.setblocking(False)
        await loop.sock_connect(raw, ("127.0.0.1", port))
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {client.key}\r\n"
        await loop.sock_sendall(raw, f"{head}Last-Event-ID: {last}\r\n\r\n".encode())
        yield Reading(raw)


async def test_a_reader_that_stops_reading_is_cut_off_and_misses_nothing(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell(SUBJECT, times=MANY)
        await relay_service.until_placed(MANY)
        async with served(relay_service, 0.5) as port, streaming(port, client, 0) as stalling:
            await stalling.read(up_to=3)
            async with asyncio.timeout(PATIENCE):
                while relay_service.service.feed._count_readers():
                    await asyncio.sleep(0.01)
            # What was on its way when the connection was cut may still be read; then it ends.
            await stalling.read(up_to=MANY)
            assert "interlock_connections_cut_total 1" in relay_service.service.registry.exposition()
        assert len(stalling.seen) < MANY
        last = max(stalling.seen, default=0)
    async with (
        relaying_service(sqlite_url, relaying=False) as relay_service,
        served(relay_service, stalled_seconds=PATIENCE) as port,
        streaming(port, client, last) as back,
    ):
        await back.read(up_to=MANY)
    assert stalling.seen + back.seen == list(range(1, MANY + 1))


async def test_a_slow_reader_is_left_alone_as_long_as_it_reads(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell(SUBJECT, times=MANY)
        await relay_service.until_placed(MANY)
        async with served(relay_service, 1.0) as port, streaming(port, client, 0) as slow:
            for position in range(1, MANY + 1, 100):
                await slow.read(up_to=position)
                await asyncio.sleep(0.15)
            await slow.read(up_to=MANY)
            assert "interlock_connections_cut_total 0" in relay_service.service.registry.exposition()
    assert slow.seen == list(range(1, MANY + 1))
