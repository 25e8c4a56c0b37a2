"""Concurrent HTTP from one process: raw keep-alive connections, so the load costs little beside the server.

    answers = await fire(server.url, [post("/api/v1/jobs", job, headers=key.headers) for job in jobs])
    assert tally(answers) == {(201, ""): len(jobs)}

A connection that fails is an answer with status 0, never an exception: crash tests count those too.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def encode(self) -> bytes:
        """Its bytes on the wire."""
        head = {"Host": "127.0.0.1", "Content-Length": str(len(self.body)), **self.headers}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; status 0 and `error` if the connection failed before an answer was complete."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    seconds: float = 0.0
    error: str = ""

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def word(self) -> str:
        """The body's `outcome` or problem `code`, or the connection's error: what a histogram counts by."""
        if self.error:
            return self.error
        if "json" not in self.headers.get("content-type", ""):
            return ""
        document = self.json()
        return (
            str(document.get("outcome") or document.get("code") or "") if isinstance(document, dict) else ""
        )


def get(path: str, *, headers: Mapping[str, str] | None = None) -> Request:
    """A GET of `path`."""
    return Request(method="GET", path=path, headers=headers or {})


def post(path: str, document: object, *, headers: Mapping[str, str] | None = None) -> Request:
    """A POST of `document` as JSON to `path`."""
    body = json.dumps(document).encode()
    return Request(
        method="POST", path=path, body=body, headers={"Content-Type": "application/json", **(headers or {})}
    )


async def fire(
    urls: str | Sequence[str],
    requests: Iterable[Request],
    *,
    connections: int = 64,
    timeout_seconds: float = 120,
) -> list[Answer]:
    """Send `requests` over that many connections, spread over `urls`; answers keep the requests' order.

    Every connection is open before the first request leaves, so that a burst is one. A connection that fails
    gives its request an answer with status 0 and is opened again for the next.
    """
    encoded = [request.encode() for request in requests]
    answers: list[Answer] = [Answer(status=0, error="NotSent")] * len(encoded)
    hosts = [urls] if isinstance(urls, str) else urls
    lines = [Connection(hosts[i % len(hosts)]) for i in range(min(connections, len(encoded)))]
    await asyncio.gather(*(line.dial() for line in lines), return_exceptions=True)
    turns = iter(range(len(encoded)))
    try:
        async with asyncio.timeout(timeout_seconds), asyncio.TaskGroup() as group:
            for line in lines:
                group.create_task(_drive(line, turns, encoded, answers))
    finally:
        for line in lines:
            line.close()
    return answers


def tally(answers: Iterable[Answer]) -> dict[tuple[int, str], int]:
    """How many answers had each status and word."""
    return dict(Counter((answer.status, answer.word) for answer in answers))


def quantile(answers: Iterable[Answer], q: float) -> float:
    """The `q` quantile of the latencies in seconds."""
    ordered = sorted(answer.seconds for answer in answers)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


class Connection(asyncio.Protocol):
    """One keep-alive connection that carries one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()

    async def dial(self) -> None:
        """Open the connection if it is not open."""
        if self._transport is None:
            await asyncio.get_running_loop().create_connection(lambda: self, *self._address)

    async def send(self, request: bytes) -> Answer:
        """Send one encoded request and return its answer, a failed connection included."""
        started = perf_counter()
        try:
            await self.dial()
            assert self._transport is not None
            self._waiter = asyncio.get_running_loop().create_future()
            self._transport.write(request)
            answer = await self._waiter
        except OSError as problem:
            self.close()
            return Answer(status=0, error=type(problem).__name__, seconds=perf_counter() - started)
        return Answer(
            status=answer.status, headers=answer.headers, body=answer.body, seconds=perf_counter() - started
        )

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()
        self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer.clear()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        parsed = parse(self._buffer)
        if parsed is None or self._waiter is None or self._waiter.done():
            return
        self._buffer.clear()
        if parsed.headers.get("connection", "").lower() == "close":
            self.close()
        self._waiter.set_result(parsed)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(
                exc if isinstance(exc, OSError) else ConnectionResetError("closed early")
            )


def parse(data: bytearray) -> Answer | None:
    """The complete answer in `data`, or None while more must come."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    status, rest = int(first.split(" ", 2)[1]), data[end + 4 :]
    if "chunked" in headers.get("transfer-encoding", ""):
        body = _joined_chunks(rest)
    else:
        length = int(headers.get("content-length", "0"))
        body = bytes(rest[:length]) if len(rest) >= length else None
    return None if body is None else Answer(status=status, headers=headers, body=body)


def _joined_chunks(data: bytearray) -> bytes | None:
    body, position = b"", 0
    while (line_end := data.find(b"\r\n", position)) >= 0:
        size = int(data[position:line_end].split(b";")[0], 16)
        start = line_end + 2
        if len(data) < start + size + 2:
            return None
        if size == 0:
            return body
        body += data[start : start + size]
        position = start + size + 2
    return None


async def _drive(line: Connection, turns: Iterator[int], encoded: list[bytes], answers: list[Answer]) -> None:
    for turn in turns:
        answers[turn] = await line.send(encoded[turn])
