"""More callers than a server has room for, who ask again the moment they are answered, and its memory meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from tests.harness.load import Answer, Connection, Request, get
from tests.harness.server import InterlockServer

_LOOK_SECONDS = 0.5


class Flood:
    """Sends one request over many connections again and again, and counts what comes back.

    `resident` is the server's memory in MB, looked at twice a second; `accepted`, `refused` and `health` are
    seconds; `unhelpful` are refusals that do not say when to come back.
    """

    def __init__(self, server: InterlockServer, request: Request, *, connections: int) -> None:
        self._server = server
        self._request = request.encode()
        self._connections = connections
        self.codes: Counter[tuple[int, str]] = Counter()
        self.accepted: list[float] = []
        self.refused: list[float] = []
        self.health: list[float] = []
        self.resident: list[float] = []
        self.unhelpful: list[Answer] = []

    async def pour(self, seconds: float) -> None:
        """Keep every connection busy for that long."""
        lines = [Connection(self._server.url) for _ in range(self._connections)]
        for line in lines:
            await line.dial()
        until = time.perf_counter() + seconds
        await asyncio.gather(self._watch(until), *(self._call(line, until) for line in lines))
        for line in lines:
            line.close()

    async def _call(self, line: Connection, until: float) -> None:
        while time.perf_counter() < until:
            self._count(await line.send(self._request))

    def _count(self, answer: Answer) -> None:
        accepted = answer.status in (200, 201, 202)
        self.codes[answer.status, "" if accepted else answer.word] += 1
        (self.accepted if accepted else self.refused).append(answer.seconds)
        if answer.status == 503 and not _says_when(answer):
            self.unhelpful.append(answer)

    async def _watch(self, until: float) -> None:
        probe = Connection(self._server.url)
        while time.perf_counter() < until:
            self.resident.append(resident_mb(self._server))
            self.health.append((await probe.send(get("/healthz").encode())).seconds)
            await asyncio.sleep(_LOOK_SECONDS)
        probe.close()


def resident_mb(server: InterlockServer) -> float:
    """What the server's process has in memory, in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


def _says_when(answer: Answer) -> bool:
    whole_seconds = answer.headers.get("retry-after", "")
    return whole_seconds.isdigit() and int(whole_seconds) >= 1 and answer.json().get("retry_after_ms", 0) >= 1
