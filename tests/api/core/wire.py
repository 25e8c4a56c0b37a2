"""A server on a real socket, and a client that speaks to it in bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from interlock.runtime.listening import Listening

PATIENCE = 30  # a hang guard
BUFFER_BYTES = 4096  # small, so that a client that does not read is noticed soon


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

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answered:
        self.say(self.head(method, path, f"Content-Length: {len(body)}", *headers) + body)
        return await self.answer()

    async def answer(self) -> Answered:
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answered(int(head[0].split()[1]), headers, body)

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), PATIENCE)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE)


class Served(NamedTuple):
    """A running server."""

    port: int
    listening: Listening
    key: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Wire]:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        raw.connect(("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=raw)
        try:
            yield Wire(reader, writer, self.key)
        finally:
            writer.close()


@asynccontextmanager
async def served(app: Any, key: str, **limits: Any) -> AsyncIterator[Served]:
    """Serve an app, and drain at the end."""
    listening = Listening(app, **limits)
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    accepting = await listening.loop.create_server(listening.connection, sock=bound)
    try:
        yield Served(accepting.sockets[0].getsockname()[1], listening, key)
    finally:
        accepting.close()
        await asyncio.wait_for(listening.drain(PATIENCE), 2 * PATIENCE)
