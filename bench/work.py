"""Work over HTTP: claims and completions beside Procrastinate, wake-ups, and claiming beside much that is finished.

Eight workers claim as many jobs as they can run at once and complete each. Procrastinate gets the same jobs, the
same number of workers and the same PostgreSQL, in turns with ours; without it (`make .venv-rivals`) its lines
are left out.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import work_history, work_waking
from bench.report import figure, interleaved, ratio, title
from bench.scene import PAYLOAD, POLICY, folder
from interlock.cli.output import say
from tests.harness.load import Answer, Connection, fire, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer

PYTHON = Path(".venv-rivals/bin/python")
WORKERS = 8
AT_A_TIME = 10
COUNT = 2000
RIVAL_COUNT = 1000
CONNECTIONS = WORKERS * AT_A_TIME
TOPIC = "knowledge.read"


class WorkerFleet:
    """Eight workers on a server, and an agent that submits their jobs."""

    def __init__(self, server: InterlockServer) -> None:
        self._url = server.url
        self._bot = server.create_key("bot", kind="agent", roles="submit").headers
        keys = [server.create_key(f"worker-{n}", kind="worker", roles="work") for n in range(WORKERS)]
        self._workers = [key.headers for key in keys]

    def ready(self, at_a_time: int) -> float:
        """Ready jobs claimed and completed a second, by workers that run `at_a_time` at once."""
        self._submit()
        return COUNT / asyncio.run(self._drain(at_a_time))

    def whole_way(self) -> float:
        """Jobs submitted, claimed and completed a second."""
        return COUNT / (self._submit() + asyncio.run(self._drain(AT_A_TIME)))

    def _submit(self) -> float:
        bodies = ({"topic": TOPIC, "payload": {**PAYLOAD, "n": n}} for n in range(COUNT))
        requests = [post("/api/v1/jobs", body, headers=self._bot) for body in bodies]
        started = time.perf_counter()
        _check(asyncio.run(fire(self._url, requests, connections=CONNECTIONS)))
        return time.perf_counter() - started

    async def _drain(self, at_a_time: int) -> float:
        lines = [[Connection(self._url) for _ in range(at_a_time)] for _ in self._workers]
        every = [line for mine in lines for line in mine]
        await asyncio.gather(*(line.dial() for line in every))
        started = time.perf_counter()
        done = await asyncio.gather(*map(_work, lines, self._workers))
        seconds = time.perf_counter() - started
        for line in every:
            line.close()
        if sum(done) != COUNT:
            raise SystemExit(f"{sum(done)} of {COUNT} jobs were completed")
        return seconds


async def _work(lines: list[Connection], headers: dict[str, str]) -> int:
    """One worker: claim as many as it can run, complete each, until there is nothing left."""
    claim = post("/api/v1/jobs/claim", {"topics": [TOPIC], "max": len(lines)}, headers=headers).encode()
    done = 0
    while True:
        claimed = await lines[0].send(claim)
        _check([claimed])
        jobs = claimed.json()["jobs"]
        if not jobs:
            return done
        sent = (line.send(_complete(job, headers)) for line, job in zip(lines, jobs, strict=False))
        _check(await asyncio.gather(*sent))
        done += len(jobs)


def _complete(job: dict[str, Any], headers: dict[str, str]) -> bytes:
    body = {"fence": job["fence"], "result": {"receipt": job["id"]}}
    return post(f"/api/v1/jobs/{job['id']}/complete", body, headers=headers).encode()


def _check(answers: Sequence[Answer]) -> None:
    wrong = [answer for answer in answers if answer.status not in (200, 201)]
    if wrong:
        raise SystemExit(f"{len(wrong)} answers were not what was asked for: {wrong[0]}")


def run() -> bool:
    """Both stores; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            policy = here / "policy.yaml"
            policy.write_text(POLICY)
            _measure("SQLite", f"sqlite:///{here}/work.db", policy, None)
            met = _measure("PostgreSQL", postgres.create_database(), policy, postgres)
            work_waking.run(f"sqlite:///{here}/waking.db", postgres, policy)
            return met & work_history.run(here, postgres)
    finally:
        postgres.close()


def _measure(name: str, store: str, policy: Path, rival: PostgresServer | None) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        fleet = WorkerFleet(server)
        contestants: dict[str, Callable[[], float]] = {
            "one": lambda: fleet.ready(1),
            "ready": lambda: fleet.ready(AT_A_TIME),
            "whole": fleet.whole_way,
        }
        if rival is not None and PYTHON.exists():
            contestants |= _rival(rival)
        return _told(name, interleaved(contestants))
    finally:
        server.close()


def _rival(postgres: PostgresServer) -> dict[str, Callable[[], float]]:
    """Procrastinate, whole way and of it the part with jobs that are ready."""
    rates: dict[str, float] = {}

    def whole() -> float:
        words = [RIVAL_COUNT, WORKERS, AT_A_TIME]
        program = [PYTHON, "bench/rivals/procrastinate_path.py", postgres.create_database(), *words]
        command = [str(word) for word in program]
        said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if said.returncode:
            raise SystemExit(f"procrastinate did not run: {said.stderr.strip()}")
        rates["ready"], rates["whole"] = map(float, said.stdout.split())
        return rates["whole"]

    return {"their whole": whole, "their ready": lambda: rates["ready"]}


def _told(name: str, found: dict[str, float]) -> bool:
    title(f"Work over HTTP on {name}: {WORKERS} workers")
    figure("claim and complete, one job at a time", found["one"], "jobs/s")
    figure(f"claim and complete, {AT_A_TIME} jobs at a time", found["ready"], "jobs/s")
    figure("submit, claim and complete", found["whole"], "jobs/s")
    if "their whole" not in found:
        return True
    figure("procrastinate: fetch and finish", found["their ready"], "jobs/s")
    figure("procrastinate: defer, fetch and finish", found["their whole"], "jobs/s")
    say(
        f"  {'claim and complete over fetch and finish':<58} {found['ready'] / found['their ready']:>12.2f} x"
    )
    say(f"  {'the whole way over theirs':<58} {found['whole'] / found['their whole']:>12.2f} x")
    return ratio("claim and complete over defer, fetch and finish", found["ready"] / found["their whole"], 5)
