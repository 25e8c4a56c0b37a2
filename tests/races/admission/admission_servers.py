"""Servers on one store, a fresh tenant for every test, and the store's own record of who held a slot when."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from interlock.rooms.admission.model import GATES, TENANT_SCOPE, Run, RunState
from interlock.rooms.admission.queries import list_runs, tenant_gate
from interlock.rooms.audit.queries import list_entries
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.operator import issue_key
from interlock.service.service import Service
from tests.harness.load import Answer, Request, fire, post
from tests.harness.server import InterlockServer
from tests.races.deployment import read_store

HANG_SECONDS = 120
RUNS_MAX = 100_000
_tenants = itertools.count()


class Tenant(NamedTuple):
    """A tenant of one test's own, with an agent and an operator."""

    name: str
    bot: dict[str, str]
    root: dict[str, str]
    bot_key: str


class AdmissionServers:
    """Servers on one store. Calls go to all of them in turn."""

    def __init__(self, store: str, servers: Sequence[InterlockServer]) -> None:
        self.store = store
        self.servers = list(servers)

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    async def tenant(self, limit: int | None = None) -> Tenant:
        """A tenant that nobody else uses."""
        name = f"tenant-{next(_tenants)}"

        async def make(service: Service) -> list[str]:
            wanted = (("bot", PrincipalKind.AGENT, Role.SUBMIT), ("root", PrincipalKind.PERSON, Role.ADMIN))
            return [
                (await issue_key(service, who, kind=kind, roles=(role,), tenant=name)).key
                for who, kind, role in wanted
            ]

        bot, root = await read_store(self.store, make)
        made = Tenant(name, {"Authorization": f"Bearer {bot}"}, {"Authorization": f"Bearer {root}"}, bot)
        if limit is not None:
            await self.limit(made, limit)
        return made

    async def limit(self, tenant: Tenant, most: int) -> None:
        body = b'{"max_concurrent_runs": %d}' % most
        headers = {"Content-Type": "application/json", **tenant.root}
        request = Request(method="PUT", path="/api/v1/limits/tenant", body=body, headers=headers)
        (answer,) = await self.ask(request)
        assert answer.status == 200, answer.body

    def start(self, tenant: Tenant, *, key: str | None = None, **fields: Any) -> Request:
        """A start, to be sent."""
        headers = dict(tenant.bot) if key is None else {**tenant.bot, "Idempotency-Key": key}
        return post("/api/v1/workflows/w/runs", fields, headers=headers)

    def end(self, tenant: Tenant, run: Any, verb: str = "complete") -> Request:
        return post(
            f"/api/v1/workflow-runs/{run['run_id']}/{verb}", {"fence": run["fence"]}, headers=tenant.bot
        )

    async def ask(self, *requests: Request, connections: int = 300, url: str | None = None) -> list[Answer]:
        """Send these at once, over all servers or one; answers keep their order."""
        return await fire(url or self.urls, requests, connections=connections, timeout_seconds=HANG_SECONDS)

    async def counts(self, tenant: Tenant) -> tuple[int, int]:
        """How many runs the gate counts, and how many there are, by the store itself."""

        async def read(service: Service) -> tuple[int, int]:
            gate, running = await tenant_gate(service.store, tenant.name)
            return gate.active, running

        return await read_store(self.store, read)

    async def waiting(self, tenant: Tenant) -> int:
        """How many stand in line."""

        async def read(service: Service) -> int:
            gate = await service.store.get(GATES, tenant.name, TENANT_SCOPE)
            return len(gate.line) if gate else 0

        return await read_store(self.store, read)

    async def history(self, tenant: Tenant) -> History:
        """Every run and every limit that ever was."""

        async def read(service: Service) -> History:
            found: list[Run] = []
            before: str | None = None
            while len(found) < RUNS_MAX:
                page = await list_runs(
                    service.store,
                    tenant.name,
                    state=None,
                    workflow=None,
                    now=datetime.now(UTC),
                    before=before,
                    limit=200,
                )
                found += page.items
                before = page.next_cursor
                if before is None:
                    break
            entries = await list_entries(service.store, tenant.name, subject=TENANT_SCOPE, limit=10_000)
            limits = sorted((entry.at, int(entry.details["max_concurrent_runs"])) for _, entry in entries)
            return History(found, limits)

        return await read_store(self.store, read)


class History:
    """Who held a slot from when to when, and how many were allowed to, all by the store's clock."""

    def __init__(self, runs: Sequence[Run], limits: Sequence[tuple[datetime, int]]) -> None:
        self.runs = runs
        self.limits = limits

    def overruns(self) -> list[str]:
        """Starts at which more held a slot than the limit in force allowed. Lowering it ends no run."""
        moments = [(run.started_at, 1, run.id) for run in self.runs]
        moments += [(ended, -1, run.id) for run in self.runs if (ended := _freed_at(run)) is not None]
        active, wrong = 0, []
        for at, change, run_id in sorted(moments):
            active += change
            if change > 0 and active > self._most_at(at):
                wrong.append(f"{run_id} was number {active} of {self._most_at(at)} at {at}")
        return wrong

    def _most_at(self, at: datetime) -> int:
        """The limit in force; where one was set in the very batch, either may have been decided first."""
        before = [most for since, most in self.limits if since < at]
        now = [most for since, most in self.limits if since == at]
        return max([*before[-1:], *now])


def _freed_at(run: Run) -> datetime | None:
    """When a slot was free again. A lost one was free when its time was over, whenever that was noticed."""
    if run.state is RunState.RUNNING:
        return None
    assert run.ended_at is not None
    return min(run.ended_at, run.slot_expires_at) if run.state is RunState.LOST else run.ended_at


async def until(look: Callable[[], Any], seconds: float = HANG_SECONDS) -> None:
    """Wait for something that must come to pass."""
    async with asyncio.timeout(seconds):
        while not await look():
            await asyncio.sleep(0.05)
