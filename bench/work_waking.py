"""How soon a waiting worker has a job that a person has just approved: on the same server, and on another one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.report import figure, quantile, title
from bench.scene import PAYLOAD
from tests.harness.load import Connection, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer

SAMPLES = 200
SETTLED_SECONDS = 0.02


class WakeUpMeasurement:
    """A server where people approve, and one where a worker waits; they may be the same."""

    def __init__(self, approving: InterlockServer, working: InterlockServer) -> None:
        self._approving, self._working = approving.url, working.url
        self._bot = approving.create_key("bot", kind="agent", roles="submit").headers
        self._ann = approving.create_key("ann", kind="person", roles="review").headers
        self._worker = approving.create_key("worker", kind="worker", roles="work").headers

    async def latencies(self) -> list[float]:
        """From sending the approval to having the job, in milliseconds, one after the other."""
        asking, waiting = Connection(self._approving), Connection(self._working)
        try:
            return [await self._once(asking, waiting, n) for n in range(SAMPLES)]
        finally:
            asking.close()
            waiting.close()

    async def _once(self, asking: Connection, waiting: Connection, number: int) -> float:
        topic = "finance.payment.execute"
        job = {"topic": topic, "env": "production", "payload": {**PAYLOAD, "n": number}}
        asked = await _ask(asking, "jobs", job, self._bot)
        body = {"topics": [topic], "wait_seconds": 30}
        claim = asyncio.create_task(_ask(waiting, "jobs/claim", body, self._worker))
        await asyncio.sleep(SETTLED_SECONDS)
        started = perf_counter()
        await _ask(asking, f"approvals/{asked['id']}/approve", {}, self._ann)
        (held,) = (await claim)["jobs"]
        seconds = perf_counter() - started
        await _ask(waiting, f"jobs/{held['id']}/complete", {"fence": held["fence"]}, self._worker)
        return seconds * 1000


async def _ask(line: Connection, path: str, body: object, headers: dict[str, str]) -> Any:
    answer = await line.send(post(f"/api/v1/{path}", body, headers=headers).encode())
    if answer.status not in (200, 201, 202):
        raise SystemExit(f"{path} was answered with {answer.status} {answer.word or answer.error}")
    return answer.json()


def run(sqlite: str, postgres: PostgresServer, policy: Path) -> None:
    """Print the figures; there is no goal."""
    title("From an approval to the claim of a worker that waits, nothing else going on")
    _measure("SQLite, same server", [sqlite], policy)
    _measure("PostgreSQL, same server", [postgres.create_database()], policy)
    _measure("PostgreSQL, another server", [postgres.create_database()] * 2, policy)


def _measure(name: str, stores: list[str], policy: Path) -> None:
    quiet = {"INTERLOCK_LOG_LEVEL": "error"}
    servers = [InterlockServer(store, policy=policy, env=quiet) for store in stores]
    try:
        for server in servers:
            server.start()
        found = asyncio.run(WakeUpMeasurement(servers[0], servers[-1]).latencies())
    finally:
        for server in servers:
            server.close()
    figure(f"{name}, p50", quantile(found, 0.5), "ms")
    figure(f"{name}, p99", quantile(found, 0.99), "ms")
