"""A client that speaks to a server in bytes, well or badly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

PATIENCE = 40  # a hang guard


class Answered(NamedTuple):
    """A response as read from the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> tuple[int, str]:
        """The status and code of a problem document."""
        assert self.headers["content-type"] == "application/problem+json", self
        return self.status, json.loads(self.body)["code"]

    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self.reader = reader
        self.writer = writer
        self.key = key

    def head(self, method: str, path: str, *headers: str) -> bytes:
        known = ("Host: test", f"Authorization: Bearer {self.key}", "Content-Type: application/json")
        return "\r\n".join((f"{method} {path} HTTP/1.1", *known, *headers, "", "")).encode()

    def request(self, method: str, path: str, body: object = None, *headers: str) -> bytes:
        """A whole request; `body` is sent as JSON unless it is bytes."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.head(method, path, f"Content-Length: {len(raw)}", *headers) + raw

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, method: str, path: str, body: object = None, *headers: str) -> Answered:
        self.say(self.request(method, path, body, *headers))
        return await self.answer()

    async def answer(self, *, has_body: bool = True) -> Answered:
        """The next answer, its body of a known length or in chunks."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            body = b""
            if has_body and headers.get("transfer-encoding") == "chunked":
                body = await self._chunks()
            elif has_body:
                body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answered(int(head[0].split()[1]), headers, body)

    async def _chunks(self) -> bytes:
        whole = b""
        while size := int(await self.reader.readline(), 16):
            whole += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return whole

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), PATIENCE)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which may be a reset."""
        whole = bytearray()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while piece := await self.reader.read(65536):
                    whole += piece
        return bytes(whole)


@contextlib.asynccontextmanager
async def connected(port: int, key: str, *, buffer_bytes: int | None = None) -> AsyncIterator[RawClient]:
    """A connection, with a small buffer if its client is to be seen not reading."""
    raw = socket.socket()
    if buffer_bytes is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(
        sock=raw, limit=2**20 if buffer_bytes is None else buffer_bytes
    )
    try:
        yield RawClient(reader, writer, key)
    finally:
        writer.transport.abort()
