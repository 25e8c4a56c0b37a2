"""Contenders for leases over several servers, and the store's own word on who held what when."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import Any

from interlock.rooms.leases.lines import overlaps
from interlock.rooms.leases.model import LEASES, Lease, LeaseMode
from interlock.service.service import Service
from tests.harness.load import Answer, Connection, get, post
from tests.races.deployment import Deployment, read_store

TTL = 1


class Contender:
    """A caller that takes things, keeps them for a while, and now and then for too long."""

    def __init__(self, urls: list[str], headers: Any, seed: int, resources: list[str]) -> None:
        self._lines = [Connection(url) for url in urls]
        self._headers = headers
        self._chance = random.Random(seed)
        self._resources = resources
        self.taken = self.stale = 0

    async def contend(self, rounds: int) -> None:
        for _ in range(rounds):
            resource = self._chance.choice(self._resources)
            mode = "shared" if self._chance.random() < 0.2 else "exclusive"
            wait = self._chance.choice([0, 2])
            body = {"resource": resource, "mode": mode, "ttl_seconds": TTL, "wait_seconds": wait}
            got = await self.call("leases", body, seconds=4)
            if got is not None and got.status == 201:
                self.taken += 1
                await self._use(got.json())

    async def _use(self, lease: dict[str, Any]) -> None:
        path, fence = f"leases/{lease['lease_id']}", {"fence": lease["fence"]}
        for _ in range(self._chance.randrange(3)):
            await asyncio.sleep(self._chance.random() * 0.3)
            await self._told(await self.call(f"{path}/renew", fence))
        if self._chance.random() < 0.2:
            await asyncio.sleep(TTL * 1.3)
        await self._told(await self.call(f"{path}/release", fence))

    async def _told(self, answer: Answer | None) -> None:
        if answer is not None:
            self.stale += answer.word == "fence_stale"

    async def call(self, path: str, body: object, *, seconds: float = 2) -> Answer | None:
        line = self._chance.choice(self._lines)
        try:
            async with asyncio.timeout(seconds):
                return await line.send(post(f"/api/v1/{path}", body, headers=self._headers).encode())
        except TimeoutError:
            line.close()
            return None

    def close(self) -> None:
        for line in self._lines:
            line.close()


async def leases_in(store: str) -> list[Lease]:
    """Every lease there ever was, in the order of their fences."""

    async def read(service: Service) -> list[Lease]:
        found: list[Lease] = []
        before = "~"
        while True:
            params = {"tenant": "default", "before": before, "limit": 1000}
            rows = await service.store.query("leases.list_leases", params)
            found += [LEASES.decode(row[0]) for row in rows]
            if len(rows) < 1000:
                return sorted(found, key=lambda lease: lease.fence)
            before = found[-1].id

    return await read_store(store, read)


def check_nobody_held_at_once(leases: list[Lease]) -> None:
    """At every moment of the store's clock, what was held together could be held together; fences grew with time."""
    for place, lease in enumerate(leases):
        for other in leases[place + 1 :]:
            if not overlaps(lease.resource, other.resource):
                continue
            assert other.fence > lease.fence
            assert other.since >= lease.since, (lease, other)
            if LeaseMode.EXCLUSIVE in (lease.mode, other.mode):
                assert over_at(lease) <= other.since, (lease, other)


def over_at(lease: Lease) -> datetime:
    """When a lease stopped being held: when it was given back, or when its time was up."""
    if lease.ended_at is None:
        return lease.expires_at
    return min(lease.ended_at, lease.expires_at)


async def taken_fences(place: Deployment, count: int) -> list[int]:
    """Take and release one resource so often, in turn on all servers; the fences, in their order."""
    headers = place.keys["bot"].headers
    fences: list[int] = []
    for turn in range(count):
        url = place.urls[turn % len(place.urls)]
        (got,) = await place.ask(post("/api/v1/leases", {"resource": "r/a"}, headers=headers), url=url)
        assert got.status == 201, got.body
        path, body = f"/api/v1/leases/{got.json()['lease_id']}/release", {"fence": got.json()["fence"]}
        await place.ask(post(path, body, headers=headers), url=url)
        fences.append(got.json()["fence"])
    (page,) = await place.ask(get("/api/v1/leases?resource=r/a&limit=1", headers=headers))
    assert page.json()["items"][0]["fence"] == fences[-1]
    assert fences == sorted(set(fences))
    return fences
