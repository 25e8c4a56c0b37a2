"""Beside others: the whole way from proposal to done, ours against CTRLRun and DBOS, in one interleaved run.

They are installed into an environment of their own (`make bench` does it); without it this section says so.
"""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from bench.report import figure, interleaved, title
from bench.scene import approve, folder, many, opened, submit
from interlock.cli.output import say
from interlock.rooms.identity.keys import digest_of
from interlock.rooms.identity.model import Caller, PrincipalKind, Role
from interlock.rooms.jobs.claims import ClaimJob
from interlock.rooms.jobs.holds import CompleteJob, JobBackoff
from interlock.service.operator import issue_key
from interlock.service.service import Service
from tests.harness.postgres import PostgresServer

PYTHON = Path(".venv-rivals/bin/python")
COUNT = 400
AT_ONCE = 8


def run() -> bool:
    """Print the figures; there is no goal here, only company."""
    if not PYTHON.exists():
        title("Beside others")
        say("  not installed: make .venv-rivals")
        return True
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            _told("SQLite", _on_sqlite(here))
        _told("PostgreSQL", _on_postgres(postgres))
    finally:
        postgres.close()
    return True


def _on_sqlite(here: Path) -> dict[str, Callable[[], float]]:
    return {
        "Interlock": lambda: asyncio.run(_ours(f"sqlite:///{here}/{uuid.uuid4()}.db")),
        "CTRLRun": lambda: _theirs("ctrlrun_path", f"{here}/{uuid.uuid4()}.db"),
    }


def _on_postgres(postgres: PostgresServer) -> dict[str, Callable[[], float]]:
    return {
        "Interlock": lambda: asyncio.run(_ours(postgres.create_database())),
        "CTRLRun": lambda: _theirs("ctrlrun_path", postgres.create_database()),
        "DBOS": lambda: _theirs("dbos_path", postgres.create_database()),
    }


def _told(store: str, contestants: dict[str, Callable[[], float]]) -> None:
    found = interleaved(contestants)
    title(f"Propose, approve, execute, done on {store}: {AT_ONCE} at once")
    for name, rate in found.items():
        figure(name, rate, "actions/s")
        if name != "Interlock" and rate:
            say(f"  {'Interlock over ' + name:<58} {found['Interlock'] / rate:>12.2f} x")


def _theirs(program: str, store: str) -> float:
    command = [str(PYTHON), f"bench/rivals/{program}.py", store, str(COUNT), str(AT_ONCE)]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if said.returncode:
        say(
            f"  {program} did not run: {said.stderr.strip().splitlines()[-1] if said.stderr else said.returncode}"
        )
        return 0.0
    return float(said.stdout.split()[-1])


async def _ours(store: str) -> float:
    async with opened(store) as (service, bot, ann):
        hand = await _worker(service)

        async def one(number: int) -> None:
            job_id = await submit(service, bot, number)
            await approve(service, ann, job_id)
            held = await service.kernel.run(
                ClaimJob(caller=hand, job_id=job_id, lease_seconds=30, backoff=JobBackoff())
            )
            await service.kernel.run(
                CompleteJob(caller=hand, job_id=job_id, fence=held.job.fence, result="done")
            )

        return await many(COUNT, AT_ONCE, one)


async def _worker(service: Service) -> Caller:
    issued = await issue_key(service, "hand", kind=PrincipalKind.WORKER, roles=(Role.WORK,))
    return Caller(tenant="default", principal="hand", key_id=issued.key_id, key_digest=digest_of(issued.key))
