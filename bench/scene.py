"""A service with people and pending approvals, in this process: what the kernel benchmarks run on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path

import msgspec

from interlock.api.server import settle_memory
from interlock.kernel.ids import new_id
from interlock.rooms.identity.keys import digest_of
from interlock.rooms.identity.model import Caller, PrincipalKind, Role
from interlock.rooms.jobs.approvals import ApproveJob
from interlock.rooms.jobs.rules import SubmitJob
from interlock.rooms.policy.action import Action
from interlock.rooms.policy.parser import parse_policy
from interlock.rooms.policy.rules import ActivatePolicy
from interlock.service.operator import issue_key
from interlock.service.service import Service, open_service
from interlock.service.settings import settings_from

POLICY = """
version: v1
default: deny
rules:
  - id: pay
    when: {topic: finance.payment.execute, env: production}
    if: payload.amount_cents > 10000
    decision: require_human
  - id: read
    when: {topic: knowledge.read}
    decision: allow
"""
PAYLOAD = {
    "invoice": "inv-2041",
    "amount_cents": 25000,
    "currency": "EUR",
    "account": "DE02120300000000202051",
}


@contextlib.asynccontextmanager
async def opened(store: str) -> AsyncGenerator[tuple[Service, Caller, Caller]]:
    """A service with one agent and one reviewer."""
    async with open_service(settings_from({}, store=store), sweeping=False) as service:
        callers: list[Caller] = []
        for name, kind, role in (
            ("bot", PrincipalKind.AGENT, Role.SUBMIT),
            ("ann", PrincipalKind.PERSON, Role.REVIEW),
        ):
            issued = await issue_key(service, name, kind=kind, roles=(role,))
            callers.append(
                Caller(
                    tenant="default", principal=name, key_id=issued.key_id, key_digest=digest_of(issued.key)
                )
            )
        await service.kernel.run(ActivatePolicy.of(parse_policy(POLICY), POLICY, tenant="default"))
        settle_memory()
        yield service, callers[0], callers[1]


async def submit(service: Service, bot: Caller, number: int) -> str:
    payload = msgspec.Raw(msgspec.json.encode({**PAYLOAD, "n": number}, order="deterministic"))
    action = Action(topic="finance.payment.execute", env="production", payload=payload)
    job = await service.kernel.run(SubmitJob(caller=bot, job_id=new_id("job"), action=action))
    return job.id


async def approve(service: Service, ann: Caller, job_id: str) -> None:
    await service.kernel.run(ApproveJob(caller=ann, job_id=job_id))


async def many(count: int, callers: int, one: Callable[[int], Awaitable[object]]) -> float:
    """Run `one` for every number with that many callers at once; returns how many a second."""
    numbers = iter(range(count))
    loop = asyncio.get_running_loop()

    async def caller() -> None:
        for number in numbers:
            await one(number)

    started = loop.time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (loop.time() - started)


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """A temporary folder on the disk that the work runs on."""
    path = Path(tempfile.mkdtemp(prefix="interlock-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
