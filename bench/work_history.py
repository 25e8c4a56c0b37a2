"""What a claim costs beside a thousand finished jobs, and beside a million."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import asyncpg
import msgspec

from bench.report import figure, interleaved, quantile, ratio, title
from bench.scene import PAYLOAD, opened
from interlock.kernel.ids import new_id
from interlock.rooms.identity.keys import digest_of
from interlock.rooms.identity.model import Caller, PrincipalKind, Role
from interlock.rooms.jobs.claims import ClaimJobs
from interlock.rooms.jobs.holds import CompleteJob, JobBackoff
from interlock.rooms.jobs.model import JOBS
from interlock.rooms.jobs.rules import SubmitJob
from interlock.rooms.policy.action import Action
from interlock.service.operator import issue_key
from interlock.service.service import Service
from interlock.store.sqlite.driver import connect
from tests.harness.postgres import PostgresServer

FEW, MANY = 1_000, 1_000_000
MEASURED = 200
TOPIC = "knowledge.read"

Execute = Callable[[str], Awaitable[object]]


class Site:
    """A store with finished jobs in it, and a worker that claims one at a time."""

    def __init__(self, runner: asyncio.Runner, service: Service, bot: Caller) -> None:
        self._run = runner.run
        self._service = service
        self._bot = bot
        self._hand: Caller = bot

    def fill(self, count: int, execute: Execute) -> None:
        """Finish one job as everyone does, and copy its row so often."""
        self._run(self._fill(count, execute))

    def claim(self) -> float:
        """The median cost of a claim, in microseconds."""
        return self._run(self._claims())

    async def _fill(self, count: int, execute: Execute) -> None:
        issued = await issue_key(self._service, "hand", kind=PrincipalKind.WORKER, roles=(Role.WORK,))
        self._hand = Caller(
            tenant="default", principal="hand", key_id=issued.key_id, key_digest=digest_of(issued.key)
        )
        await self._once()
        await execute(_copies(count))

    async def _claims(self) -> float:
        return quantile([await self._once() for _ in range(MEASURED)], 0.5) * 1e6

    async def _once(self) -> float:
        """Submit, claim, complete; the seconds of the claim."""
        run, hand = self._service.kernel.run, self._hand
        action = Action(topic=TOPIC, payload=msgspec.Raw(msgspec.json.encode(PAYLOAD)))
        await run(SubmitJob(caller=self._bot, job_id=new_id("job"), action=action))
        claim = ClaimJobs(caller=hand, topics=(TOPIC,), most=1, lease_seconds=30, backoff=JobBackoff())
        started = perf_counter()
        (held,) = await run(claim)
        seconds = perf_counter() - started
        await run(CompleteJob(caller=hand, job_id=held.job.id, fence=held.job.fence, result="done"))
        return seconds


def _copies(count: int) -> str:
    """Copies of the one job there is, under ids of their own. The same statement on both stores."""
    columns = ", ".join(JOBS.columns)
    return f"""
        INSERT INTO jobs (tenant, id, version, body, {columns})
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
        SELECT tenant, id || '-' || n, version, replace(body, id, id || '-' || n), {columns}
        FROM jobs, numbers
    """


def run(here: Path, postgres: PostgresServer) -> bool:
    """Both stores; True if the goal was met on both."""
    met = _compare(
        "SQLite", *((f"sqlite:///{here}/{n}.db", _into_file(here / f"{n}.db")) for n in (FEW, MANY))
    )
    urls = [postgres.create_database() for _ in (FEW, MANY)]
    return met & _compare("PostgreSQL", *((url, _into_database(url)) for url in urls))


def _compare(name: str, few: tuple[str, Execute], many: tuple[str, Execute]) -> bool:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        try:
            sites: dict[str, Site] = {}
            for word, count, (store, execute) in (("few", FEW, few), ("many", MANY, many)):
                service, bot, _ = runner.run(stack.enter_async_context(opened(store)))
                sites[word] = Site(runner, service, bot)
                sites[word].fill(count, execute)
            found = interleaved({word: site.claim for word, site in sites.items()})
        finally:
            runner.run(stack.aclose())
    title(f"Claiming beside finished jobs, on {name}")
    figure(f"a claim beside {FEW:,}", found["few"], "µs")
    figure(f"a claim beside {MANY:,}", found["many"], "µs")
    return ratio("beside a million over beside a thousand", found["many"] / found["few"], 1.5, at_most=True)


def _into_file(path: Path) -> Execute:
    async def execute(statement: str) -> None:
        database = connect(str(path))
        database.execute(statement).fetchall()
        database.close()

    return execute


def _into_database(url: str) -> Execute:
    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        # What autovacuum would do within the minute.
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.close()

    return execute
