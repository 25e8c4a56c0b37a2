"""Callers that keep on through every crash, and the account of what they were promised.

An actor submits a job, has two people decide it at once, and begins again. It repeats a call under the same
idempotency key until it is answered, as a careful client does. What was answered is what must be found.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interlock.rooms.audit.queries import list_entries
from interlock.rooms.jobs.queries import list_jobs, read_job
from interlock.service.service import Service
from tests.harness.load import Answer, Connection, post
from tests.harness.server import Key
from tests.harness.stored_events import events_by_subject
from tests.races.deployment import read_store

HANG_SECONDS = 60
RETRYABLE = frozenset({0, 503})


@dataclass
class Promised:
    """What actors were told: jobs by idempotency key, and the answer to each decision."""

    submits: dict[str, Answer] = field(default_factory=dict[str, Answer])
    decisions: dict[str, list[Answer]] = field(default_factory=dict[str, list[Answer]])
    words: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])

    @property
    def calls(self) -> int:
        """How many answers there were, failures included."""
        return self.words.total()


class Actors:
    """A crowd at work on some servers until told to stop."""

    def __init__(self, urls: Sequence[str], bot: Key, people: Sequence[Key], *, count: int = 6) -> None:
        self.promised = Promised()
        self._urls = urls
        self._bot = bot
        self._people = people
        self._done = asyncio.Event()
        self._tasks = [asyncio.create_task(self._act(f"actor{n}")) for n in range(count)]

    async def stop(self) -> Promised:
        """Let everyone finish what they began."""
        self._done.set()
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.gather(*self._tasks)
        return self.promised

    def check_alive(self) -> None:
        """Raise what an actor met that it must not meet."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _act(self, name: str) -> None:
        turn = 0
        while not self._done.is_set():
            turn += 1
            key = f"{name}-{turn}"
            submitted = await self._insist(
                "/api/v1/jobs", {"topic": "pay", "payload": {"key": key}}, self._bot, key
            )
            assert submitted.status == 202, submitted.body
            self.promised.submits[key] = submitted
            job = submitted.json()["id"]
            people = random.sample(list(self._people), 2)
            verbs = random.choices(["approve", "reject"], k=2)
            self.promised.decisions[job] = await asyncio.gather(
                *(
                    self._insist(f"/api/v1/approvals/{job}/{verb}", {"reason": "r"}, person, f"{key}-{n}")
                    for n, (verb, person) in enumerate(zip(verbs, people, strict=True))
                )
            )

    async def _insist(self, path: str, body: object, who: Key, key: str) -> Answer:
        request = post(path, body, headers={**who.headers, "Idempotency-Key": key}).encode()
        while True:
            line = Connection(random.choice(self._urls))
            try:
                async with asyncio.timeout(HANG_SECONDS):
                    answer = await line.send(request)
            finally:
                line.close()
            self.promised.words[answer.status, answer.word] += 1
            if answer.status not in RETRYABLE:
                assert answer.status in (200, 202, 409), answer.body
                assert answer.word != "lock_busy" or answer.headers["retry-after"]
                if answer.word != "lock_busy":
                    return answer
            await asyncio.sleep(0.02)


async def check_promises(store: str, promised: Promised) -> None:
    """Hold the store to every answer that was given."""
    await read_store(store, lambda service: _check(service, promised))


async def _check(service: Service, promised: Promised) -> None:
    jobs = {answer.json()["id"]: key for key, answer in promised.submits.items()}
    stored = await _every_job(service)
    keys = Counter(payload["key"] for payload in stored.values())
    assert set(jobs) <= set(stored), "an acknowledged job is gone"
    assert not [key for key, count in keys.items() if count > 1], "one idempotency key made two jobs"
    events = await events_by_subject(service.store)
    for job, decisions in promised.decisions.items():
        await _check_decisions(service, job, decisions, Counter(events[job]))


async def _check_decisions(
    service: Service, job_id: str, answers: list[Answer], events: Counter[str]
) -> None:
    job = await read_job(service.store, "default", job_id)
    assert job is not None
    assert job.approval is not None
    told = {answer.json()["decision_id"] for answer in answers}
    assert told == {job.approval.decision_id}, (job_id, [answer.body for answer in answers])
    final = {"PENDING": "approved", "DENIED": "rejected"}[job.state.value]
    assert any(answer.word == final for answer in answers), "nobody was told of the decision that holds"
    assert all(answer.word in (final, f"already_{final}") for answer in answers)
    assert events[f"approval.{final}"] == 1
    assert events["approval.approved"] + events["approval.rejected"] == 1
    entries = await list_entries(service.store, "default", subject=job_id, limit=100)
    audit = Counter(entry.action for _, entry in entries)
    assert (audit["submit"], audit["approve"] + audit["reject"]) == (1, 1)


async def _every_job(service: Service) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        page = await list_jobs(
            service.store, "default", state=None, topic=None, now=datetime.now(UTC), before=cursor, limit=200
        )
        found |= {job.id: msgspec.json.decode(job.action.payload) for job in page.items}
        cursor = page.next_cursor
        if cursor is None:
            return found
