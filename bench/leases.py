"""Leases: cycles against the same server without a store, one hot resource, and acquiring beside a long history."""

from __future__ import annotations

from bench import history
from bench.cycles import CONNECTIONS, Caller, on_both_stores
from bench.report import figure, interleaved, ratio, title
from interlock.kernel.ids import new_id
from interlock.rooms.identity import model as identity
from interlock.rooms.leases.acquisition import AcquireLease
from interlock.rooms.leases.model import LEASES, NODES
from interlock.rooms.leases.transfers import ReleaseLease
from interlock.service.service import Service
from tests.harness.load import Connection

CYCLES = 1000
CONTENDERS = 200


class Leasing:
    """What a caller does with leases on one server."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def cycles(self) -> float:
        """Requests a second in cycles of acquire, renew and release on distinct resources."""
        caller = self._caller
        return 3 * caller.rate(CYCLES, lambda line, n: self._cycle(line, f"bench:{caller.turn}/{n}", 0))

    def submits(self) -> float:
        """Durable submits a second, to compare with."""
        job = {"topic": "knowledge.read", "payload": {"n": 1}}
        caller = self._caller
        return caller.rate(
            CYCLES * 3, lambda line, n: caller.ask(line, "jobs", {**job, "labels": {"n": str(n)}})
        )

    def contended(self) -> float:
        """How long that many contenders for one resource take until each has had it."""
        return self._caller.seconds(CONTENDERS, CONTENDERS, lambda line, n: self._cycle(line, "hot", 120))

    def sequential(self) -> float:
        """How long one client takes to have it as often."""
        return self._caller.seconds(CONTENDERS, 1, lambda line, n: self._cycle(line, "cold", 0))

    async def _cycle(self, line: Connection, resource: str, wait: float) -> None:
        got = await self._caller.ask(line, "leases", {"resource": resource, "wait_seconds": wait})
        lease, fence = got.json()["lease_id"], {"fence": got.json()["fence"]}
        await self._caller.ask(line, f"leases/{lease}/renew", fence)
        await self._caller.ask(line, f"leases/{lease}/release", fence)


def run() -> bool:
    """Both stores; True if every goal was met."""
    works = [
        history.Work("acquire and release one resource", "released leases", cycle, finished),
        history.Work(
            "acquire and release everything under a path", "released leases under it", tree, finished
        ),
    ]
    return on_both_stores(_measure) & history.compare(works)


def _measure(name: str, durable: Caller, bare: Caller) -> bool:
    leasing, null = Leasing(durable), Leasing(bare)
    found = interleaved(
        {
            "null cycles": null.cycles,
            "cycles": leasing.cycles,
            "submits": leasing.submits,
            "contended": leasing.contended,
            "sequential": leasing.sequential,
        }
    )
    title(f"Leases on {name}: {CONNECTIONS} connections")
    figure("acquire, renew, release without a store: requests", found["null cycles"], "a second")
    figure("acquire, renew, release: requests", found["cycles"], "a second")
    figure("durable submits", found["submits"], "a second")
    figure(f"{CONTENDERS} contenders for one resource", found["contended"] * 1000, "ms")
    figure(f"{CONTENDERS} acquisitions one after another", found["sequential"] * 1000, "ms")
    met = ratio("durable lease cycles over none", found["cycles"] / found["null cycles"], 0.15)
    met &= ratio("requests of lease cycles over durable submits", found["cycles"] / found["submits"], 0.5)
    slower = found["contended"] / found["sequential"]
    return met & ratio("contended over sequential", slower, 1.5, at_most=True)


async def cycle(service: Service, bot: identity.Caller, number: int, resource: str = "") -> str:
    """Acquire something and give it back; the lease's id."""
    lease_id, resource = new_id("lse"), resource or f"bench/{number % 50}"
    got = await service.kernel.run(AcquireLease(caller=bot, lease_id=lease_id, resource=resource))
    fence = got.lease.fence
    await service.kernel.run(ReleaseLease(caller=bot, lease_id=lease_id, resource=resource, fence=fence))
    return lease_id


async def tree(service: Service, bot: identity.Caller, number: int) -> str:
    """Acquire everything under the path that all the released leases lie under."""
    return await cycle(service, bot, number, "bench/**")


async def finished(service: Service, bot: identity.Caller) -> history.Records:
    """A released lease and the node that it leaves behind."""
    name = f"bench/old{new_id('n')}"
    lease_id = await cycle(service, bot, 0, name)
    return {LEASES: (lease_id, ("id", "resource")), NODES: (name, ("id",))}
