"""Servers on one store, with people and agents to call them; and the store's own word on what happened."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from interlock.rooms.audit.queries import list_entries
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.operator import issue_key
from interlock.service.service import Service, open_service
from interlock.service.settings import settings_from
from tests.harness.load import Answer, Request, fire, get, post
from tests.harness.server import InterlockServer, Key
from tests.harness.stored_events import events_by_subject

T = TypeVar("T")
REVIEWERS = 20
HANG_SECONDS = 120

ASK = """
version: v1
rules:
  - {id: ask, when: {topic: pay}, decision: require_human}
  - {id: three, when: {topic: pay.three}, decision: require_human, approval: {quorum: 3}}
  - {id: grace, when: {topic: pay.grace}, decision: require_human, approval: {grace: 1s}}
  - {id: read, when: {topic: read}, decision: allow}
  - {id: five, when: {topic: mail}, decision: throttle, throttle: {rate: 1/h, burst: 5, key: tenant}, then: allow}
"""

_numbers = itertools.count()


class Deployment:
    """Servers on one store. Calls go to all of them in turn."""

    def __init__(self, store: str, servers: Sequence[InterlockServer]) -> None:
        self.store = store
        self.servers = list(servers)
        self.keys = in_thread(make_keys(store))

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @property
    def reviewers(self) -> list[Key]:
        return [self.keys[f"reviewer-{n}"] for n in range(REVIEWERS)]

    async def ask(self, *requests: Request, connections: int = 64, url: str | None = None) -> list[Answer]:
        """Send these at once, over all servers or one; answers keep their order."""
        return await fire(url or self.urls, requests, connections=connections, timeout_seconds=HANG_SECONDS)

    async def submit(self, topic: str = "pay", **fields: Any) -> str:
        """Submit one job; returns its id."""
        body = {"topic": topic, "payload": {"n": next(_numbers)}, **fields}
        (answer,) = await self.ask(post("/api/v1/jobs", body, headers=self.keys["bot"].headers))
        assert answer.status in (201, 202), answer.body
        return answer.json()["id"]

    async def job(self, job: str) -> Any:
        """The job, read from the first server."""
        (answer,) = await self.ask(get(f"/api/v1/jobs/{job}", headers=self.keys["bot"].headers))
        assert answer.status == 200, answer.body
        return answer.json()

    async def put_policy(self, text: str) -> None:
        """Put a policy in force."""
        headers = {"Content-Type": "application/yaml", **self.keys["root"].headers}
        request = Request(method="PUT", path="/api/v1/policy", body=text.encode(), headers=headers)
        (answer,) = await self.ask(request)
        assert answer.status == 200, answer.body

    def approve(self, job: str, reviewer: int = 0, **options: Any) -> Request:
        """One reviewer's yes, to be sent."""
        return self._decision(job, "approve", {}, reviewer, **options)

    def reject(self, job: str, reviewer: int = 0, **options: Any) -> Request:
        """One reviewer's no, to be sent."""
        return self._decision(job, "reject", {"reason": "no"}, reviewer, **options)

    def withdraw(self, job: str, reviewer: int = 0) -> Request:
        """One reviewer's second thought, to be sent."""
        return self._decision(job, "withdraw", {"reason": "too soon"}, reviewer)

    def claim(self, job: str, who: str) -> Request:
        """A claim of one job by its id, to be sent."""
        return post(f"/api/v1/jobs/{job}/claim", {}, headers=self.keys[who].headers)

    async def account(self, subject: str) -> tuple[Counter[str], Counter[str]]:
        """What the store itself holds about a job: its events by type, its audit entries by action."""
        return await read_store(self.store, lambda service: account_of(service, subject))

    def _decision(self, job: str, verb: str, body: object, reviewer: int, key: str | None = None) -> Request:
        headers = dict(self.reviewers[reviewer % REVIEWERS].headers)
        if key is not None:
            headers["Idempotency-Key"] = key
        return post(f"/api/v1/approvals/{job}/{verb}", body, headers=headers)


async def read_store(store: str, read: Callable[[Service], Awaitable[T]]) -> T:
    """Look at a store directly, without a server in between."""
    async with open_service(settings_from({}, store=store), sweeping=False) as service:
        return await read(service)


async def make_keys(store: str) -> dict[str, Key]:
    """An admin, an agent and the reviewers, straight in the store."""
    wanted = [
        ("root", "person", "admin,audit,operate"),
        ("bot", "agent", "submit"),
        ("hand", "worker", "work"),
    ]
    wanted += [(f"reviewer-{n}", "person", "review") for n in range(REVIEWERS)]

    async def make(service: Service) -> dict[str, Key]:
        keys: dict[str, Key] = {}
        for name, kind, roles in wanted:
            issued = await issue_key(
                service, name, kind=PrincipalKind(kind), roles=tuple(Role(role) for role in roles.split(","))
            )
            keys[name] = Key(principal=name, tenant="default", key=issued.key)
        return keys

    return await read_store(store, make)


def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in an event loop of its own, so that fixtures in and out of a loop can wait for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def account_of(service: Service, subject: str) -> tuple[Counter[str], Counter[str]]:
    events = await events_by_subject(service.store)
    entries = await list_entries(service.store, "default", subject=subject, limit=10_000)
    return Counter(events[subject]), Counter(entry.action for _, entry in entries)
