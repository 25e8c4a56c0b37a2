"""A whole service in this process: the real routes, the real kernel, a real store, a clock the test moves.

async with open_api() as api:
    await api.policy(ASK)
    bot, ada = await api.agent("bot"), await api.person("ada")
    job = await api.submit(bot)
    assert (await api.approve(job, ada)).word == "approved"
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.api.app import App
from interlock.api.assembly import assemble
from interlock.kernel.storage import Store
from interlock.rooms.audit.queries import list_entries
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.keyring import Known
from interlock.service.logs import Log
from interlock.service.operator import issue_key
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store.memory import MemoryStore
from interlock.wire.http import Request, Response
from tests.harness.openapi_conformance import check_answer
from tests.harness.stored_events import events_by_subject

ASK = """
version: v1
rules:
  - id: ask
    when: {topic: pay}
    decision: require_human
  - id: read
    when: {topic: read}
    decision: allow
"""


class VirtualClock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let this much time go by."""
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer as its caller sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def word(self) -> str:
        """The outcome or the problem's code: what a caller branches on."""
        document = self.document
        return str(document.get("outcome") or document.get("code") or document.get("state") or "")


class InProcessApi:
    """One service and what a test does with it. A job is named by its id, a caller by its key."""

    def __init__(self, service: Service, app: App[Known, Service], clock: VirtualClock) -> None:
        self.service = service
        self.app = app
        self.clock = clock
        self.admin = ""

    async def call(
        self,
        method: str,
        path: str,
        key: str,
        body: object = None,
        *,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Seen:
        """Send one request below `/api/v1`; a body that is not bytes goes as JSON."""
        sent = {"authorization": f"Bearer {key}", "content-type": "application/json", **(headers or {})}
        if idempotency_key is not None:
            sent["idempotency-key"] = idempotency_key
        path, _, query = path.partition("?")
        path = path if path.startswith("/") else f"/api/v1/{path}"
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = await self.app.respond(
            Request(method=method, path=path, query=query, headers=sent, body=raw)
        )
        seen = _seen(answer)
        check_answer(method, path, seen.status, seen.headers.get("content-type", ""), seen.body)
        return seen

    async def get(self, path: str, key: str | None = None) -> Any:
        """The document at `path`, which must be there."""
        seen = await self.call("GET", path, key or self.admin)
        assert seen.status == 200, seen.document
        return seen.document

    async def policy(self, text: str) -> str:
        """Put a policy in force; returns its snapshot."""
        seen = await self.call(
            "PUT", "policy", self.admin, text.encode(), headers={"content-type": "text/yaml"}
        )
        assert seen.status == 200, seen.document
        return seen.document["snapshot"]

    async def key(
        self,
        name: str,
        kind: str,
        roles: str,
        *,
        groups: tuple[str, ...] | None = None,
        owner: str | None = None,
        tenant: str = "default",
    ) -> str:
        """A key for a principal, which is made if it is new."""
        issued = await issue_key(
            self.service,
            name,
            kind=PrincipalKind(kind),
            roles=tuple(Role(role) for role in roles.split(",") if role),
            groups=groups,
            owner=owner,
            tenant=tenant,
        )
        return issued.key

    async def person(self, name: str, roles: str = "review", **options: Any) -> str:
        """A person's key."""
        return await self.key(name, "person", roles, **options)

    async def agent(self, name: str = "bot", roles: str = "submit", **options: Any) -> str:
        """An agent's key."""
        return await self.key(name, "agent", roles, **options)

    async def propose(self, key: str, payload: object = None, topic: str = "pay", **fields: Any) -> Seen:
        """Submit a job and return the whole answer."""
        idempotency_key = fields.pop("idempotency_key", None)
        body = {"topic": topic, "payload": payload if payload is not None else {}, **fields}
        return await self.call("POST", "jobs", key, body, idempotency_key=idempotency_key)

    async def submit(self, key: str, payload: object = None, topic: str = "pay", **fields: Any) -> str:
        """Submit a job that is not denied; returns its id."""
        seen = await self.propose(key, payload, topic, **fields)
        assert seen.status in (201, 202), seen.document
        return seen.document["id"]

    async def approve(self, job: str, key: str, **body: Any) -> Seen:
        """One person's yes."""
        return await self.call("POST", f"approvals/{job}/approve", key, body)

    async def reject(self, job: str, key: str, **body: Any) -> Seen:
        """One person's no."""
        return await self.call("POST", f"approvals/{job}/reject", key, {"reason": "no", **body})

    async def job(self, job: str) -> Any:
        """The job as it stands."""
        return await self.get(f"jobs/{job}")

    async def sweep(self) -> None:
        """One pass over everything that time changes."""
        await self.service.sweeps.sweep_once()

    async def audit(self, subject: str) -> list[tuple[str, str]]:
        """Action and outcome of every audit entry about something, oldest first."""
        entries = await list_entries(self.service.store, "default", subject=subject, limit=1000)
        return [(entry.action, entry.outcome) for _, entry in reversed(entries)]

    async def events(self, subject: str) -> list[str]:
        """The types of every event about something, oldest first."""
        return (await events_by_subject(self.service.store))[subject]

    async def metric(self, line: str) -> float:
        """The value of one line of `/metrics` as the operator sees it, 0 if it is not there."""
        text = (await self.call("GET", "/metrics", self.admin)).body.decode()
        found = [row.rpartition(" ")[2] for row in text.splitlines() if row.rpartition(" ")[0] == line]
        return float(found[0]) if found else 0.0


@contextlib.asynccontextmanager
async def open_api(
    store: Store | None = None, *, clock: VirtualClock | None = None, log: Log | None = None, **settings: Any
) -> AsyncGenerator[InProcessApi]:
    """The API on `store`, or on memory; sweeps run only when the test says so."""
    clock = clock or VirtualClock()
    store = MemoryStore(clock=clock) if store is None else store
    service = Service(store, settings_from({}, **settings))
    await service.open(sweeping=False)
    try:
        api = InProcessApi(service, assemble(service, log or Log(level="error")), clock)
        api.admin = await api.person("root", "admin,audit,operate")
        yield api
    finally:
        await service.close()


def _seen(answer: Response) -> Seen:
    return Seen(answer.status, dict(answer.headers), answer.body)
