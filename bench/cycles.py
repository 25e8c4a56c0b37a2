"""Cycles of calls on a server at many connections, and the same calls on the server without a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from bench import null_identity
from bench.burst import without_a_store
from bench.scene import POLICY, folder
from tests.harness.load import Answer, Connection, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer

CONNECTIONS = 64

Act = Callable[[Connection, int], Awaitable[object]]


class Caller:
    """A caller with a key who calls a server over many connections at once."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers
        self.turn = 0

    async def ask(self, line: Connection, path: str, body: object) -> Answer:
        """One call that must succeed."""
        answer = await line.send(post(f"/api/v1/{path}", body, headers=self._headers).encode())
        if answer.status not in (200, 201, 202):
            raise SystemExit(f"{path} was answered with {answer.status} {answer.word or answer.error}")
        return answer

    def rate(self, count: int, one: Act) -> float:
        """How many of these a second, that many at once."""
        return count / self.seconds(count, CONNECTIONS, one)

    def seconds(self, count: int, connections: int, one: Act) -> float:
        """How long all of them take. `turn` tells apart what one run names from what the next one does."""
        self.turn += 1
        return asyncio.run(self._timed(count, connections, one))

    async def _timed(self, count: int, connections: int, one: Act) -> float:
        numbers = iter(range(count))

        async def work(line: Connection) -> None:
            for number in numbers:
                await one(line, number)

        lines = [Connection(self._url) for _ in range(connections)]
        await asyncio.gather(*(line.dial() for line in lines))
        started = time.perf_counter()
        await asyncio.gather(*(work(line) for line in lines))
        seconds = time.perf_counter() - started
        for line in lines:
            line.close()
        return seconds


def on_both_stores(measure: Callable[[str, Caller, Caller], bool]) -> bool:
    """Measure on SQLite and on PostgreSQL: the caller of a server, and one of the server without a store."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here, without_a_store() as url:
            bare = Caller(url, null_identity.HEADERS)
            (here / "policy.yaml").write_text(POLICY)
            stores = {"SQLite": f"sqlite:///{here}/interlock.db", "PostgreSQL": postgres.create_database()}
            met = [
                _served(store, here / "policy.yaml", lambda caller, name=name: measure(name, caller, bare))
                for name, store in stores.items()
            ]
            return all(met)
    finally:
        postgres.close()


def _served(store: str, policy: Path, measure: Callable[[Caller], bool]) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        headers = server.create_key("bot", kind="agent", roles="submit").headers
        return measure(Caller(server.url, headers))
    finally:
        server.close()
