"""The API with agents who act and people who say what happened: shorthand for effects, targets and conflicts."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.harness.in_process_api import InProcessApi, Seen

POLICY = """
version: v1
rules:
  - {id: ask, when: {topic: "pay.**"}, decision: require_human}
  - {id: free, when: {topic: "free.**"}, decision: allow}
"""


class Actors:
    """Two agents (`bot`, `other`), a worker, two people (`ada`, `bob`), a reconciler; all by their keys."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.bot = self.other = self.worker = self.ada = self.bob = self.reconciler = ""

    async def open(self) -> Actors:
        api = self.api
        await api.policy(POLICY)
        self.bot = await api.key("bot", "agent", "submit,work")
        self.other = await api.key("other", "agent", "submit,work")
        self.worker = await api.key("worker", "worker", "work")
        self.ada, self.bob = await api.person("ada"), await api.person("bob")
        self.reconciler = await api.key("reconciler", "service", "operate")
        return self

    async def post(self, path: str, by: str, body: object = None) -> Seen:
        return await self.api.call("POST", path, by, {} if body is None else body)

    async def begin(self, action: str = "a", *, by: str | None = None, **fields: Any) -> Seen:
        body = {"request_hash": "sha256:one", **fields}
        return await self.post(f"effects/{quote(action, safe='')}/begin", by or self.bot, body)

    async def commit(
        self, action: str = "a", fence: int = 1, *, by: str | None = None, result: Any = None
    ) -> Seen:
        return await self.post(f"effects/{action}/commit", by or self.bot, {"fence": fence, "result": result})

    async def fail(
        self, action: str = "a", fence: int = 1, *, safe: bool, by: str | None = None, error: Any = "no"
    ) -> Seen:
        body = {"fence": fence, "error": error, "safe_to_retry": safe}
        return await self.post(f"effects/{action}/fail", by or self.bot, body)

    async def resolve(self, outcome: str, action: str = "a", *, by: str | None = None, **fields: Any) -> Seen:
        body = {"outcome": outcome, "evidence": "the bank says so", **fields}
        return await self.post(f"effects/{action}/resolve", by or self.ada, body)

    async def effect(self, action: str = "a") -> Any:
        return await self.api.get(f"effects/{action}")

    async def lease(self, resource: str = "doc:1", *, by: str | None = None, **fields: Any) -> Any:
        seen = await self.post("leases", by or self.bot, {"resource": resource, **fields})
        assert seen.status == 201, seen.document
        return seen.document

    async def renew(self, lease: Any, *, by: str | None = None) -> Seen:
        return await self.post(f"leases/{lease['lease_id']}/renew", by or self.bot, {"fence": lease["fence"]})

    async def touch(self, version: str, key: str = "doc:1", *, by: str | None = None, **fields: Any) -> Any:
        seen = await self.post(
            f"targets/{quote(key, safe='')}/touch", by or self.ada, {"version": version, **fields}
        )
        assert seen.status == 200, seen.document
        return seen.document

    async def target(self, key: str = "doc:1") -> Any:
        return await self.api.get(f"targets/{quote(key, safe='')}")

    async def submit(
        self, version: str | None = "v1", topic: str = "pay.a", *, key: str = "doc:1", by: str | None = None
    ) -> str:
        target = {"key": key, "version": version} if version else None
        body = {"topic": topic, "payload": {}, "target": target}
        seen = await self.post("jobs", by or self.bot, {k: v for k, v in body.items() if v is not None})
        assert seen.status in (201, 202), seen.document
        return seen.document["id"]

    async def claim(self, topic: str = "free.a") -> Any:
        seen = await self.post("jobs/claim", self.worker, {"topics": [topic]})
        assert seen.status == 200, seen.document
        return seen.document["jobs"]

    async def conflicts(self, **query: str) -> list[Any]:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return (await self.api.get(f"conflicts?{asked}"))["items"]

    async def settle(self, conflict: str, resolution: str, *, by: str | None = None) -> Seen:
        body = {"resolution": resolution, "note": "we talked about it"}
        return await self.post(f"conflicts/{conflict}/resolve", by or self.api.admin, body)

    async def pass_time(self, seconds: float, *, sweep: bool = True) -> None:
        self.api.clock.advance(seconds)
        if sweep:
            await self.api.sweep()


def lease_ref(lease: Any) -> dict[str, Any]:
    """A lease as `begin` takes it."""
    return {"id": lease["lease_id"], "fence": lease["fence"]}
