"""Plain HTTP over kept connections, one call on each at a time.

Many callers in one process must not be slower than the service, or their times would measure the callers. So this
knows no more of HTTP than a drill needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from interlock.drills.report import Answer

_LINE_BYTES_MAX = 64 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Wire:
    """Connections to one service, as many as there are calls under way."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        is_secret = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if is_secret else 80)
        self._prefix = parts.path.rstrip("/")
        self._trust = ssl.create_default_context() if is_secret else None
        self._idle: list[Stream] = []

    async def warm_up(self, connections: int) -> None:
        """Have so many open connections, so that a burst is one."""
        missing = max(0, connections - len(self._idle))
        opened = await asyncio.gather(*(self._dial() for _ in range(missing)), return_exceptions=True)
        self._idle += [stream for stream in opened if not isinstance(stream, BaseException)]

    async def call(
        self, method: str, path: str, headers: dict[str, str], body: Any, seconds_max: float
    ) -> Answer:
        """One call; no answer in time, or none at all, is an answer with status 0."""
        started = perf_counter()
        try:
            async with asyncio.timeout(seconds_max):
                status, raw = await self._exchange(self._encoded(method, path, headers, body))
        except (OSError, TimeoutError, EOFError, ValueError):
            return Answer(status=0, seconds=perf_counter() - started)
        seconds = perf_counter() - started
        with contextlib.suppress(ValueError):
            return Answer(status=status, seconds=seconds, document=json.loads(raw))
        return Answer(status=status, seconds=seconds)

    async def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _dial(self) -> Stream:
        return await asyncio.open_connection(self._host, self._port, ssl=self._trust, limit=_LINE_BYTES_MAX)

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        stream = self._idle.pop() if self._idle else await self._dial()
        reader, writer = stream
        try:
            writer.write(request)
            status, headers = await _head(reader)
            body = await _body(reader, headers)
        except BaseException:
            writer.close()
            raise
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(stream)
        return status, body

    def _encoded(self, method: str, path: str, headers: dict[str, str], body: Any) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {self._prefix}{path} HTTP/1.1",
            f"host: {self._host}:{self._port}",
            f"content-length: {len(content)}",
            *(["content-type: application/json"] if content else []),
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ", 2)[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        return await reader.readexactly(int(headers.get("content-length", "0")))
    chunks: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)
