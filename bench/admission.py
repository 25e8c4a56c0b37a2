"""Admission over HTTP: starts and completions against plain submits, and crowds before a small limit."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.report import figure, interleaved, quantile, ratio, title
from bench.scene import PAYLOAD, POLICY, folder
from tests.harness.load import Answer, Request, fire, post, tally
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer

CONNECTIONS = 64
COUNT = 1500
CROWD = 300
ROOMY = 1_000_000
_workflows = itertools.count()


class Gate:
    """A server to be measured, and those who call it."""

    def __init__(self, server: InterlockServer) -> None:
        self._url = server.url
        self._bot = dict(server.create_key("bot", kind="agent", roles="submit").headers)
        self._root = dict(server.create_key("root", kind="person", roles="admin,operate").headers)
        self.codes: dict[tuple[int, str], int] = {}
        self.limit("tenant", ROOMY)

    def submits(self) -> float:
        """Two durable submits for each pair of calls, answered a second."""
        body = {"topic": "knowledge.read", "payload": PAYLOAD}
        requests = [post("/api/v1/jobs", body, headers=self._bot)] * (2 * COUNT)
        _, seconds = self._timed(requests)
        return 2 * COUNT / seconds

    def starts_and_completes(self) -> float:
        """Starts of runs and then their completions, calls a second."""
        started, first = self._timed([self._start("w")] * COUNT)
        _, second = self._timed([self._complete(answer) for answer in started])
        return 2 * COUNT / (first + second)

    def alone_p50(self) -> float:
        """One start after the other."""
        answers = [self._timed([self._start("w")])[0][0] for _ in range(30)]
        self._timed([self._complete(answer) for answer in answers])
        return quantile([answer.seconds for answer in answers], 0.5) * 1000

    def free_p50(self) -> float:
        """The crowd where there is room for all of it."""
        answers = self._crowd(ROOMY)
        self._timed([self._complete(answer) for answer in answers if answer.status == 201])
        return quantile([answer.seconds for answer in answers], 0.5) * 1000

    def full(self) -> list[Answer]:
        """The crowd at a limit of two."""
        answers = self._crowd(2)
        self._timed([self._complete(answer) for answer in answers if answer.status == 201])
        self.codes = tally(answers)
        return answers

    def limit(self, scope: str, most: int) -> None:
        """Set a limit."""
        headers = {"Content-Type": "application/json", **self._root}
        body = b'{"max_concurrent_runs": %d}' % most
        self._timed([Request(method="PUT", path=f"/api/v1/limits/{scope}", body=body, headers=headers)])

    def _crowd(self, most: int) -> list[Answer]:
        workflow = f"crowd-{next(_workflows)}"
        self.limit(workflow, most)
        return asyncio.run(fire(self._url, [self._start(workflow)] * CROWD, connections=CROWD))

    def _start(self, workflow: str) -> Request:
        return post(f"/api/v1/workflows/{workflow}/runs", {"ttl_seconds": 600}, headers=self._bot)

    def _complete(self, started: Answer) -> Request:
        run = started.json()
        path = f"/api/v1/workflow-runs/{run['run_id']}/complete"
        return post(path, {"fence": run["fence"]}, headers=self._bot)

    def _timed(self, requests: Sequence[Request]) -> tuple[list[Answer], float]:
        began = time.perf_counter()
        answers = asyncio.run(fire(self._url, requests, connections=CONNECTIONS))
        seconds = time.perf_counter() - began
        wrong = [answer for answer in answers if answer.status not in (200, 201, 202)]
        if wrong:
            raise SystemExit(f"{len(wrong)} answers were not what was asked for: {wrong[0]}")
        return answers, seconds


def run() -> bool:
    """Both stores; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            policy = here / "policy.yaml"
            policy.write_text(POLICY)
            met = _measure("SQLite", f"sqlite:///{here}/interlock.db", policy)
            return met & _measure("PostgreSQL", postgres.create_database(), policy)
    finally:
        postgres.close()


def _measure(name: str, store: str, policy: Path) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        return _told(name, Gate(server))
    finally:
        server.close()


def _told(name: str, gate: Gate) -> bool:
    contestants: dict[str, Callable[[], float]] = {
        "submits": gate.submits,
        "runs": gate.starts_and_completes,
        "alone": gate.alone_p50,
        "free": gate.free_p50,
        "full p50": lambda: quantile([answer.seconds for answer in gate.full()], 0.5) * 1000,
        "full p99": lambda: quantile([answer.seconds for answer in gate.full()], 0.99) * 1000,
    }
    found = interleaved(contestants)
    title(f"Admission on {name}")
    figure(f"durable submits, {CONNECTIONS} connections", found["submits"], "a second")
    figure(f"starts and completions, {CONNECTIONS} connections", found["runs"], "a second")
    figure("starts one after the other, p50", found["alone"], "ms")
    figure(f"{CROWD} starts at once with room for all, p50", found["free"], "ms")
    figure(f"{CROWD} starts at once at a limit of 2, p50", found["full p50"], "ms")
    figure(f"{CROWD} starts at once at a limit of 2, p99", found["full p99"], "ms")
    counted = ", ".join(f"{count} times {status}" for (status, _), count in sorted(gate.codes.items()))
    print(f"  {'codes at a limit of 2':<58} {counted}")
    met = ratio("starts and completions over submits", found["runs"] / found["submits"], 0.5)
    return met & ratio(
        "p99 at a full gate over p50 with room", found["full p99"] / found["free"], 5, at_most=True
    )
