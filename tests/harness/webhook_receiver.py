"""A webhook receiver that answers as it is told: well, slowly, wrongly, with redirects, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HEADER_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The event in it."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to answer. `hang_up` closes the connection instead; `raw` replaces the whole answer."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_seconds: float = 0.0
    hang_up: bool = False
    raw: bytes | None = None


Behave = Callable[[Received], Reply]


class Receiver:
    """An HTTP server on 127.0.0.1. `received` are requests in the order they came; `taken` those answered 2xx."""

    def __init__(self, behave: Behave | None = None) -> None:
        self.behave: Behave = behave or (lambda _: Reply())
        self.received: list[Received] = []
        self.taken: list[Received] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self, *, port: int = 0, ssl: Any = None) -> Receiver:
        """Listen; on the same port again after `stop`, if it is given."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=ssl)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Refuse connections, and end those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.close()

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.port}/hook"

    def events(self) -> list[dict[str, Any]]:
        """The events taken, repeats included."""
        return [request.event for request in self.taken]

    async def until(self, done: Callable[[], bool], *, seconds: float = 60) -> None:
        """Return once `done()` holds, looked at after each request."""
        async with asyncio.timeout(seconds):
            while not done():
                self._arrived.clear()
                waiting = asyncio.create_task(self._arrived.wait())
                await asyncio.wait({waiting}, timeout=0.1)
                waiting.cancel()

    async def until_taken(self, count: int, *, seconds: float = 60) -> None:
        """Return once `count` different events were taken."""
        await self.until(lambda: len({event["id"] for event in self.events()}) >= count, seconds=seconds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while (request := await _read(reader)) is not None:
                if not await self._answer(request, writer):
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        self.received.append(request)
        reply = self.behave(request)
        self._arrived.set()
        if reply.delay_seconds:
            await asyncio.sleep(reply.delay_seconds)
        if reply.hang_up:
            return False
        if 200 <= reply.status < 300:
            self.taken.append(request)
            self._arrived.set()
        headers = {"content-length": str(len(reply.body)), **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} told", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(reply.raw or ("\r\n".join(lines) + "\r\n\r\n").encode() + reply.body)
        await writer.drain()
        return reply.raw is None


async def _read(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method=method, path=path, headers=headers, body=body)
