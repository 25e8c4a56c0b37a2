"""Clients that stop reading their socket are cut off, and miss nothing when they come back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from typing import Any, cast

from interlock.api.metrics import Registry
from interlock.runtime.connection import Connection
from interlock.runtime.listening import Listening
from tests.api.events.caller import Client, client_of
from tests.api.events.reading import parse
from tests.relays.rig import Rig, rigged

PATIENCE = 60  # a hang guard
BUFFER_BYTES = 4096
SUBJECT = "s" * 4000


@contextlib.asynccontextmanager
async def served(rig: Rig, stalled_seconds: float, registry: Registry | None = None) -> AsyncGenerator[int]:
    """The rig's API behind real sockets with small buffers; yields the port."""
    listening = Listening(rig.app, stalled_seconds=stalled_seconds, registry=registry)
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    accepting = await listening.loop.create_server(listening.connection, sock=bound)
    try:
        yield bound.getsockname()[1]
    finally:
        accepting.close()
        await asyncio.wait_for(listening.drain(1.0), PATIENCE)


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
    async with rigged(sqlite_url, relaying=False) as rig:
        client = await client_of(rig)
        await rig.tell(SUBJECT, times=100)
        await rig.until_placed(100)
        counted = Registry()
        async with served(rig, 0.5, counted) as port, streaming(port, client, 0) as stalling:
            await stalling.read(up_to=3)
            async with asyncio.timeout(PATIENCE):
                while rig.service.feed._count_readers():
                    await asyncio.sleep(0.01)
            # What was on its way when the connection was cut may still be read; then it ends.
            await stalling.read(up_to=100)
            assert "interlock_connections_cut_total 1" in counted.exposition()
        assert len(stalling.seen) < 100
        last = max(stalling.seen, default=0)
        async with served(rig, stalled_seconds=PATIENCE) as port, streaming(port, client, last) as back:
            await back.read(up_to=100)
    assert stalling.seen + back.seen == list(range(1, 101))


class Clock:
    """A loop's timer, run by hand."""

    def __init__(self) -> None:
        self.due: list[tuple[Any, tuple[Any, ...]]] = []

    def call_later(self, _seconds: float, work: Any, *arguments: Any) -> Any:
        self.due.append((work, arguments))
        return self

    def time(self) -> float:
        return 0.0

    def cancel(self) -> None:
        self.due.clear()

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for work, arguments in due:
            work(*arguments)


class Pipe(asyncio.Transport):
    """A transport of which a test says how much is unsent."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent_bytes = 100_000
        self.is_cut = False

    def is_closing(self) -> bool:
        return self.is_cut

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def abort(self) -> None:
        self.is_cut = True


async def connected() -> tuple[Connection, Pipe, Clock]:
    listening = Listening(cast("Any", None))
    listening.loop = clock = cast("Any", Clock())
    pipe = Pipe()
    connection = listening.connection()
    connection.connection_made(pipe)
    return connection, pipe, clock


async def test_a_slow_reader_is_left_alone_as_long_as_it_reads() -> None:
    protocol, pipe, clock = await connected()
    protocol.pause_writing()
    for _ in range(20):
        pipe.unsent_bytes -= 1
        clock.pass_time()
    assert not pipe.is_cut
    clock.pass_time()
    assert pipe.is_cut


async def test_a_reader_that_has_caught_up_is_no_longer_watched() -> None:
    protocol, pipe, clock = await connected()
    protocol.pause_writing()
    protocol.resume_writing()
    clock.pass_time()
    assert not pipe.is_cut
