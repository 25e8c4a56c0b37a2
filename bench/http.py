"""End to end over HTTP: durable submits and approvals against the same server without a store, and one hot job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from bench import null_identity
from bench.burst import without_a_memory, without_a_store
from bench.crowd import Crowd
from bench.report import figure, in_turns, interleaved, over, quantile, ratio, title
from bench.scene import PAYLOAD, POLICY, folder
from tests.harness.load import Request, fire, post
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer

CONNECTIONS = 64
COUNT = 640
TURNS = 40
HOT = 500


class Contestant:
    """A server to be measured, and how its callers name themselves."""

    def __init__(self, url: str, submit_as: dict[str, str], review_as: dict[str, str]) -> None:
        self.url = url
        self._submit_as = submit_as
        self._review_as = review_as
        self._crowd = Crowd(url, CONNECTIONS)
        self._jobs: list[str] = []

    def submits(self) -> float:
        """Submit many distinct jobs; returns how many a second were answered."""
        sent = self._crowd.sent([self._submit(n) for n in range(COUNT)])
        self._jobs = [answer.json()["id"] for answer in sent.answers]
        return sent.rate

    def approvals(self) -> float:
        """Approve each of them."""
        return self._crowd.sent([self._approve(job) for job in self._jobs]).rate

    def hot_p95(self) -> float:
        """The p95 of many concurrent approvals of one job."""
        job = self._crowd.sent([self._submit(0)]).answers[0].json()["id"]
        return self._p95([self._approve(job)] * HOT)

    def distinct_p95(self) -> float:
        """The p95 of as many concurrent approvals of distinct jobs."""
        sent = self._crowd.sent([self._submit(n) for n in range(HOT)])
        jobs = [answer.json()["id"] for answer in sent.answers]
        return self._p95([self._approve(job) for job in jobs])

    def close(self) -> None:
        self._crowd.close()

    def _submit(self, number: int) -> Request:
        document = {
            "topic": "finance.payment.execute",
            "env": "production",
            "payload": {**PAYLOAD, "n": number},
        }
        return post("/api/v1/jobs", document, headers=self._submit_as)

    def _approve(self, job: str) -> Request:
        return post(f"/api/v1/approvals/{job}/approve", {"reason": "fine"}, headers=self._review_as)

    def _p95(self, requests: Sequence[Request]) -> float:
        answers = asyncio.run(fire(self.url, requests, connections=HOT))
        return quantile([answer.seconds for answer in answers], 0.95) * 1000


def run() -> bool:
    """Both stores; True if every goal was met."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            policy = here / "policy.yaml"
            policy.write_text(POLICY)
            met = _compare("SQLite", f"sqlite:///{here}/interlock.db", policy)
            return met & _compare("PostgreSQL", postgres.create_database(), policy)
    finally:
        postgres.close()


def _compare(name: str, store: str, policy: Path) -> bool:
    server = InterlockServer(store, policy=policy, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        bot = server.create_key("bot", kind="agent", roles="submit").headers
        ann = server.create_key("ann", kind="person", roles="review").headers
        with without_a_store() as bare, without_a_memory() as forgetful:
            known = null_identity.HEADERS
            with (
                closing(Contestant(server.url, dict(bot), dict(ann))) as durable,
                closing(Contestant(forgetful, known, known)) as deciding,
                closing(Contestant(bare, known, known)) as neither,
            ):
                return _told(name, durable, deciding, neither)
    finally:
        server.close()


def _told(name: str, durable: Contestant, forgetful: Contestant, bare: Contestant) -> bool:
    contestants: dict[str, Callable[[], float]] = {
        "bare submits": bare.submits,
        "forgetful submits": forgetful.submits,
        "submits": durable.submits,
        "bare approvals": bare.approvals,
        "forgetful approvals": forgetful.approvals,
        "approvals": durable.approvals,
    }
    found = in_turns(contestants, TURNS)
    late = interleaved({"distinct": durable.distinct_p95, "hot": durable.hot_p95})
    title(f"HTTP on {name}: {CONNECTIONS} connections, {TURNS} turns of {COUNT} calls")
    for what in ("submits", "approvals"):
        figure(f"without kernel, rules and store: {what}", median(found[f"bare {what}"]), "a second")
        figure(f"decided, and not stored: {what}", median(found[f"forgetful {what}"]), "a second")
        figure(f"durable {what}", median(found[what]), "a second")
        figure(
            f"durable {what} over neither decided nor stored", over(found[what], found[f"bare {what}"]), "x"
        )
    figure(f"{HOT} approvals of distinct jobs at once, p95", late["distinct"], "ms")
    figure(f"{HOT} approvals of one job at once, p95", late["hot"], "ms")
    met = True
    for what in ("submits", "approvals"):
        met &= ratio(f"durable {what} over not stored", over(found[what], found[f"forgetful {what}"]), 0.6)
    return met & ratio("one hot job over distinct jobs, p95", late["hot"] / late["distinct"], 3, at_most=True)
