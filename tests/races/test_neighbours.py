"""One tenant's heavy calls do not hold up another's: order is asserted, never time.

A server of its own on each store. The heavy calls are on their way before the neighbour asks; the neighbour's calls
are answered one after another while heavy ones are still waiting for their answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.load import Answer, Connection, Request, get, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, Key

HANG_SECONDS = 120
MEMBERS = 2500

# Each member is looked for among all of them: many milliseconds for one payload.
HEAVY = """
version: v1
default: allow
rules:
  - {id: all, when: {topic: heavy}, decision: deny, if: "payload.l.all(x, x in payload.l)"}
"""
FREE = "version: v1\ndefault: allow\n"


class Neighbours:
    """A server, one tenant whose policy is dear to ask, and one who knows nothing of it."""

    def __init__(self, server: InterlockServer) -> None:
        self.server = server
        self.admins = {tenant: self._key("boss", tenant, "admin,operate") for tenant in ("large", "small")}
        self.large = self._key("bot", "large", "submit,work")
        self.small = self._key("bot", "small", "submit,work")

    async def open(self) -> None:
        for tenant, policy in (("large", HEAVY), ("small", FREE)):
            headers = {"Content-Type": "application/yaml", **self.admins[tenant].headers}
            put = Request(method="PUT", path="/api/v1/policy", body=policy.encode(), headers=headers)
            assert (await self.ask(put)).status == 200

    async def ask(self, request: Request) -> Answer:
        line = Connection(self.server.url)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await line.send(request.encode())
        finally:
            line.close()

    async def answered_before(self, heavy: list[Request]) -> list[Answer]:
        """Send these, then call as their neighbour; the answers to these, once the neighbour had all of its own."""
        before = await self._computed()
        under_way = [asyncio.create_task(self.ask(request)) for request in heavy]
        while await self._computed() == before and not all(task.done() for task in under_way):
            await asyncio.sleep(0.01)
        for n in range(3):
            job = post("/api/v1/jobs", {"topic": "x", "payload": {"n": n}}, headers=self.small.headers)
            assert (await self.ask(job)).status == 201
            assert (await self.ask(get("/healthz"))).status == 200
            assert (await self.ask(get("/api/v1/jobs", headers=self.small.headers))).status == 200
        assert not all(task.done() for task in under_way), "the neighbour was answered after all heavy calls"
        return await asyncio.gather(*under_way)

    async def _computed(self) -> float:
        """How much was computed beside the loop, or waits for it: more of it, and the heavy calls have begun."""
        seen = (await self.ask(get("/metrics", headers=self.admins["large"].headers))).body.decode()
        counts = [line for line in seen.splitlines() if line.startswith("interlock_computations_")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in counts)

    def _key(self, name: str, tenant: str, roles: str) -> Key:
        kind = "person" if name == "boss" else "service"
        return self.server.create_key(name, kind=kind, roles=roles, tenant=tenant)


@pytest.fixture(params=["sqlite", "postgres"])
def neighbours(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neighbours]:
    if request.param == "sqlite":
        store = f"sqlite:///{tmp_path / 'interlock.db'}"
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store = postgres.create_database()
    server = InterlockServer(store, env={"INTERLOCK_ACQUIRE_SECONDS": "60"})
    try:
        yield Neighbours(server.start())
    finally:
        server.close()


def payload(n: int) -> dict[str, object]:
    """Not two are alike: what was evaluated once is not evaluated again."""
    return {"n": n, "l": list(range(MEMBERS)), "filling": "x" * 400_000}


def evaluations(neighbours: Neighbours) -> list[Request]:
    bodies = [{"topic": "heavy", "payload": payload(n)} for n in range(24)]
    return [post("/api/v1/policy/evaluate", body, headers=neighbours.large.headers) for body in bodies]


def submits(neighbours: Neighbours) -> list[Request]:
    bodies = [{"topic": "heavy", "payload": payload(n)} for n in range(24)]
    return [post("/api/v1/jobs", body, headers=neighbours.large.headers) for body in bodies]


def bodies_that_only_strict_reading_refuses(neighbours: Neighbours) -> list[Request]:
    body = b'{"topic": "light", "payload": [' + b'1.5e-7, {"a": [[]]}, ' * 48_000 + b'{"a": 1, "a": 2}]}'
    headers = {"Content-Type": "application/json", **neighbours.large.headers}
    return [Request(method="POST", path="/api/v1/jobs", body=body, headers=headers)] * 16


@pytest.mark.parametrize(
    ("heavy", "status"),
    [(evaluations, 200), (submits, 403), (bodies_that_only_strict_reading_refuses, 400)],
)
async def test_a_neighbour_is_answered_before_the_heavy_calls_are(
    neighbours: Neighbours, heavy: Callable[[Neighbours], list[Request]], status: int
) -> None:
    await neighbours.open()
    answers = await neighbours.answered_before(heavy(neighbours))
    assert {answer.status for answer in answers} == {status}


async def test_a_neighbour_is_answered_before_a_simulation_is(neighbours: Neighbours) -> None:
    await neighbours.open()
    for n in range(12):
        body = {"topic": "light", "payload": payload(n)}
        assert (
            await neighbours.ask(post("/api/v1/jobs", body, headers=neighbours.large.headers))
        ).status == 201
    candidate = HEAVY.replace("topic: heavy", "topic: light")
    asked = post(
        "/api/v1/policy/simulate",
        {"policy": candidate, "last": 12},
        headers=neighbours.admins["large"].headers,
    )

    answers = await neighbours.answered_before([asked] * 4)

    assert {answer.status for answer in answers} <= {200, 503}
    assert any(json.loads(answer.body).get("changes") for answer in answers)
