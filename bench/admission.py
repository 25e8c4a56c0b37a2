"""Admission over HTTP: starts and completions against the same server without a store, and crowds at a small limit.

What a start costs without contention is measured in two ways: starts one after the other, where no caller waits for
another; and the same crowd with room for all of it, where callers wait for the server as at the limit and only the gate
differs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import null_identity
from bench.burst import burst, without_a_store
from bench.report import figure, interleaved, quantile, ratio, title
from bench.scene import PAYLOAD, POLICY, folder
from interlock.cli.output import say
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

    def __init__(self, url: str, bot: Mapping[str, str], root: Mapping[str, str]) -> None:
        self._url = url
        self._bot = dict(bot)
        self._root = dict(root)
        self.codes: dict[tuple[int, str], int] = {}

    def submits(self) -> float:
        """Two durable submits for each pair of calls, answered a second."""
        body = {"topic": "knowledge.read", "payload": PAYLOAD}
        return burst(
            self._url, [post("/api/v1/jobs", body, headers=self._bot)] * (2 * COUNT), CONNECTIONS
        ).rate

    def starts_and_completes(self) -> float:
        """Starts of runs and then their completions, calls a second."""
        started = burst(self._url, [self._start("w")] * COUNT, CONNECTIONS)
        ended = burst(self._url, [self._complete(answer) for answer in started.answers], CONNECTIONS)
        return 2 * COUNT / (started.seconds + ended.seconds)

    def alone_p50(self) -> float:
        """One start after the other."""
        starts = [burst(self._url, [self._start("w")], 1) for _ in range(30)]
        self._end([start.answers[0] for start in starts])
        return quantile([start.seconds for start in starts], 0.5) * 1000

    def free_p50(self) -> float:
        """The crowd where there is room for all of it."""
        return quantile([answer.seconds for answer in self._crowd(ROOMY)], 0.5) * 1000

    def full(self, q: float) -> float:
        """The crowd at a limit of two."""
        answers = self._crowd(2)
        self.codes = tally(answers)
        return quantile([answer.seconds for answer in answers], q) * 1000

    def limit(self, scope: str, most: int) -> None:
        """Set a limit."""
        headers = {"Content-Type": "application/json", **self._root}
        body = b'{"max_concurrent_runs": %d}' % most
        burst(
            self._url, [Request(method="PUT", path=f"/api/v1/limits/{scope}", body=body, headers=headers)], 1
        )

    def _crowd(self, most: int) -> list[Answer]:
        workflow = f"crowd-{next(_workflows)}"
        self.limit(workflow, most)
        answers = asyncio.run(fire(self._url, [self._start(workflow)] * CROWD, connections=CROWD))
        self._end([answer for answer in answers if answer.status == 201])
        return answers

    def _end(self, started: list[Answer]) -> None:
        burst(self._url, [self._complete(answer) for answer in started], CONNECTIONS)

    def _start(self, workflow: str) -> Request:
        return post(f"/api/v1/workflows/{workflow}/runs", {"ttl_seconds": 600}, headers=self._bot)

    def _complete(self, started: Answer) -> Request:
        run = started.json()
        path = f"/api/v1/workflow-runs/{run['run_id']}/complete"
        return post(path, {"fence": run["fence"]}, headers=self._bot)


def run() -> bool:
    """Both stores; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here, without_a_store() as bare:
            policy = here / "policy.yaml"
            policy.write_text(POLICY)
            null = Gate(bare, null_identity.HEADERS, null_identity.HEADERS)
            met = _measure("SQLite", f"sqlite:///{here}/interlock.db", policy, null)
            return met & _measure("PostgreSQL", postgres.create_database(), policy, null)
    finally:
        postgres.close()


def _measure(name: str, store: str, policy: Path, null: Gate) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        bot = server.create_key("bot", kind="agent", roles="submit").headers
        root = server.create_key("root", kind="person", roles="admin,operate").headers
        gate = Gate(server.url, bot, root)
        gate.limit("tenant", ROOMY)
        return _told(name, gate, null)
    finally:
        server.close()


def _told(name: str, gate: Gate, null: Gate) -> bool:
    contestants: dict[str, Callable[[], float]] = {
        "null": null.starts_and_completes,
        "runs": gate.starts_and_completes,
        "submits": gate.submits,
        "alone": gate.alone_p50,
        "free": gate.free_p50,
        "full p50": lambda: gate.full(0.5),
        "full p99": lambda: gate.full(0.99),
    }
    found = interleaved(contestants)
    title(f"Admission on {name}: {CONNECTIONS} connections")
    figure("the same routes without a store: starts and completions", found["null"], "a second")
    figure("durable starts and completions", found["runs"], "a second")
    figure("durable submits", found["submits"], "a second")
    figure("starts one after the other, p50", found["alone"], "ms")
    figure(f"{CROWD} starts at once with room for all, p50", found["free"], "ms")
    figure(f"{CROWD} starts at once at a limit of 2, p50", found["full p50"], "ms")
    figure(f"{CROWD} starts at once at a limit of 2, p99", found["full p99"], "ms")
    counted = ", ".join(f"{count} times {status}" for (status, _), count in sorted(gate.codes.items()))
    say(f"  {'codes at a limit of 2':<58} {counted}")
    met = ratio("durable starts and completions over none", found["runs"] / found["null"], 0.6)
    met &= ratio("p99 at a full gate over p50 with room", found["full p99"] / found["free"], 5, at_most=True)
    figure("p99 at a full gate over p50 one after the other", found["full p99"] / found["alone"], "x")
    return met
