"""Leases: durable cycles beside durable submits, one hot resource, and acquiring beside many released leases."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.report import figure, interleaved, ratio, title
from bench.scene import POLICY, folder
from interlock.identity.model import Caller
from interlock.kernel.ids import new_id
from interlock.leases.acquiring import AcquireLease
from interlock.leases.giving import ReleaseLease
from interlock.leases.model import LEASES
from interlock.runtime.service import Service
from tests.harness.load import Answer, Connection, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer
from tests.harness.soak import dose

CONNECTIONS = 64
CYCLES = 1000
CONTENDERS = 200
RELEASED_FEW, RELEASED_MANY = 1_000, min(1_000_000, dose(100_000))
MEASURED = 300

Act = Callable[[Connection, int], Awaitable[object]]


class Rig:
    """A server and somebody who takes leases on it."""

    def __init__(self, server: InterlockServer) -> None:
        self._url = server.url
        self._headers = server.create_key("bot", kind="agent", roles="submit").headers
        self._turn = 0

    def submits(self) -> float:
        """Durable submits a second, to compare with."""
        job = {"topic": "knowledge.read", "payload": {"n": 1}}
        return self._rate(
            CYCLES * 3, lambda line, n: self._ask(line, "jobs", {**job, "labels": {"n": str(n)}})
        )

    def cycles(self) -> float:
        """Requests a second in cycles of acquire, renew and release on distinct resources."""
        return 3 * self._rate(CYCLES, lambda line, n: self._cycle(line, f"bench:{self._turn}/{n}", 0))

    def contended(self) -> float:
        """How long so many contenders for one resource take until each has had it."""
        return self._seconds(CONTENDERS, CONTENDERS, lambda line, n: self._cycle(line, "hot", 120))

    def sequential(self) -> float:
        """How long one client takes to have it as often."""
        return self._seconds(CONTENDERS, 1, lambda line, n: self._cycle(line, "cold", 0))

    async def _cycle(self, line: Connection, resource: str, wait: float) -> None:
        got = await self._ask(line, "leases", {"resource": resource, "wait_seconds": wait})
        lease, fence = got.json()["lease_id"], {"fence": got.json()["fence"]}
        await self._ask(line, f"leases/{lease}/renew", fence)
        await self._ask(line, f"leases/{lease}/release", fence)

    async def _ask(self, line: Connection, path: str, body: object) -> Answer:
        answer = await line.send(post(f"/api/v1/{path}", body, headers=self._headers).encode())
        if answer.status not in (200, 201):
            raise SystemExit(f"{path} was answered with {answer.status} {answer.word or answer.error}")
        return answer

    def _rate(self, count: int, one: Act) -> float:
        return count / self._seconds(count, CONNECTIONS, one)

    def _seconds(self, count: int, connections: int, one: Act) -> float:
        self._turn += 1
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


def run() -> bool:
    """Both stores; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            (here / "policy.yaml").write_text(POLICY)
            stores = {"SQLite": f"sqlite:///{here}/interlock.db", "PostgreSQL": postgres.create_database()}
            met = [_served(name, store, here / "policy.yaml") for name, store in stores.items()]
            met.append(_history(f"sqlite:///{here}/history.db"))
            return all(met)
    finally:
        postgres.close()


def _served(name: str, store: str, policy: Path) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        rig = Rig(server)
        contestants = {
            "submits": rig.submits,
            "cycles": rig.cycles,
            "contended": rig.contended,
            "sequential": rig.sequential,
        }
        found = interleaved(contestants)
    finally:
        server.close()
    title(f"Leases on {name}: {CONNECTIONS} connections")
    figure("durable submits", found["submits"], "a second")
    figure("acquire, renew, release: requests", found["cycles"], "a second")
    figure(f"{CONTENDERS} contenders for one resource", found["contended"] * 1000, "ms")
    figure(f"{CONTENDERS} acquisitions one after another", found["sequential"] * 1000, "ms")
    met = ratio("requests of lease cycles over durable submits", found["cycles"] / found["submits"], 0.5)
    return met & ratio(
        "contended over sequential", found["contended"] / found["sequential"], 1.5, at_most=True
    )


def _history(store: str) -> bool:
    few, many = asyncio.run(_beside_history(store))
    title("Acquiring beside released leases, on SQLite")
    figure(f"acquire and release beside {RELEASED_FEW:,}", few * 1e6, "µs")
    figure(f"acquire and release beside {RELEASED_MANY:,}", many * 1e6, "µs")
    return ratio("beside many over beside few", many / few, 1.3, at_most=True)


async def _beside_history(store: str) -> tuple[float, float]:
    from bench.scene import opened

    async with opened(store) as (service, bot, _):
        await _fill(service, bot, store, RELEASED_FEW)
        few = await _cost(service, bot)
        await _fill(service, bot, store, RELEASED_MANY - RELEASED_FEW)
        return few, await _cost(service, bot)


async def _fill(service: Service, bot: Caller, store: str, count: int) -> None:
    """Copies of a released lease, written straight into the table."""
    from msgspec.structs import replace

    from interlock.store.sqlite_driver import connect
    from interlock.store.statements import insert_one

    lease_id = await _once(service, bot)
    lease = await service.store.get(LEASES, "default", lease_id)
    if lease is None:
        raise SystemExit("the lease that was just released is not there")
    database = connect(store.removeprefix("sqlite:///"))
    database.execute("BEGIN IMMEDIATE")
    for _ in range(count):
        database.execute(insert_one(LEASES), LEASES.row(replace(lease, id=new_id("lse"))))
    database.execute("COMMIT")
    database.close()


async def _cost(service: Service, bot: Caller) -> float:
    """The median of acquiring and releasing, in seconds."""
    times: list[float] = []
    for _ in range(MEASURED):
        started = time.perf_counter()
        await _once(service, bot)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def _once(service: Service, bot: Caller) -> str:
    lease_id = new_id("lse")
    got = await service.kernel.run(AcquireLease(caller=bot, lease_id=lease_id, resource="bench/a"))
    await service.kernel.run(
        ReleaseLease(caller=bot, lease_id=lease_id, resource="bench/a", fence=got.lease.fence)
    )
    return lease_id
