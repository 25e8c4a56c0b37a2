"""The API with workers: shorthand for claiming and ending work."""

from __future__ import annotations

from typing import Any

from interlock.rooms.jobs.model import JOBS
from tests.harness.in_process_api import InProcessApi, Seen

WORKABLE = """
version: v1
rules:
  - {id: ask, when: {topic: "pay.**"}, decision: require_human}
  - {id: free, when: {topic: "free.**"}, decision: allow}
"""


class JobClient:
    """The API with an agent that submits, a person who approves, and two workers."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.bot = self.ada = self.worker = self.other = ""

    async def open(self, policy: str = WORKABLE) -> JobClient:
        await self.api.policy(policy)
        self.bot = await self.api.agent()
        self.ada = await self.api.person("ada")
        self.worker = await self.api.key("worker", "worker", "work")
        self.other = await self.api.key("other", "worker", "work")
        return self

    async def submit(self, topic: str = "free.a", **fields: Any) -> str:
        return await self.api.submit(self.bot, fields.pop("payload", {"n": 1}), topic, **fields)

    async def approved(self, topic: str = "pay.a", **fields: Any) -> str:
        job = await self.submit(topic, **fields)
        assert (await self.api.approve(job, self.ada)).word == "approved"
        return job

    async def claim(self, *topics: str, by: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        seen = await self.claim_seen(*topics, by=by, **fields)
        assert seen.status == 200, seen.document
        return seen.document["jobs"]

    async def claim_seen(
        self, *topics: str, by: str | None = None, key: str | None = None, **fields: Any
    ) -> Seen:
        body = {"topics": list(topics or ("free.a",)), **fields}
        return await self.api.call("POST", "jobs/claim", by or self.worker, body, idempotency_key=key)

    async def take(self, *topics: str, **fields: Any) -> dict[str, Any]:
        """The one job there is."""
        (job,) = await self.claim(*topics, **fields)
        return job

    async def call(self, verb: str, job: str, fence: int, *, by: str | None = None, **fields: Any) -> Seen:
        """renew, complete, fail or release."""
        return await self.api.call(
            "POST", f"jobs/{job}/{verb}", by or self.worker, {"fence": fence, **fields}
        )

    async def alter(self, job: str, **fields: Any) -> None:
        """Change a stored record behind the service's back, as an intruder in the database would."""
        import msgspec

        key = JOBS.key("default", job)
        store: Any = self.api.service.store
        record = await store.get(JOBS, "default", job)
        assert record is not None
        changed = msgspec.structs.replace(record, **fields)
        store._bodies[key] = JOBS.encode(changed)
