"""A client and a server's life at the ASGI interface, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from interlock.api.app import App
from interlock.api.asgi import AsgiApp

Message = MutableMapping[str, Any]
PATIENCE = 20  # a hang guard


class Client:
    """One request at the ASGI interface: what it sends, what it got, and whether it is still there."""

    def __init__(self, asgi: AsgiApp, method: str, path: str, chunks: list[bytes], **headers: str) -> None:
        self.sent: list[Message] = []
        self.received = 0
        self.leaves_after: int | None = None
        self.deaf_after: int | None = None
        self.gone = asyncio.Event()
        self._chunks = chunks or [b""]
        self._asgi = asgi
        self._scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }

    async def receive(self) -> Message:
        if self.received == self.leaves_after:
            return {"type": "http.disconnect"}
        if self.received < len(self._chunks):
            self.received += 1
            chunk = self._chunks[self.received - 1]
            return {"type": "http.request", "body": chunk, "more_body": self.received < len(self._chunks)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if len(self.sent) == self.deaf_after:
            raise ConnectionResetError
        self.sent.append(message)

    async def run(self) -> Client:
        async with asyncio.timeout(PATIENCE):
            await self._asgi(self._scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}


@asynccontextmanager
async def alive(asgi: AsgiApp) -> AsyncIterator[list[Message]]:
    """Run the application's lifespan around the block; yield what it told the server."""
    told: list[Message] = []
    events: asyncio.Queue[Message] = asyncio.Queue()
    started = asyncio.Event()

    async def send(message: Message) -> None:
        told.append(message)
        started.set()

    life = asyncio.create_task(asgi({"type": "lifespan"}, events.get, send))
    events.put_nowait({"type": "lifespan.startup"})
    async with asyncio.timeout(PATIENCE):
        await started.wait()
        try:
            yield told
        finally:
            events.put_nowait({"type": "lifespan.shutdown"})
            with suppress(RuntimeError):
                await life


@asynccontextmanager
async def opened(app: App[Any, Any]) -> AsyncIterator[App[Any, Any]]:
    yield app
