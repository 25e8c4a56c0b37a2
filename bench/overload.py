"""A server at rest, and one with more callers than its queue holds: memory over time, and how fast it says no."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.report import figure, quantile, ratio, title
from bench.scene import PAYLOAD, POLICY, folder
from interlock.cli.output import say
from tests.harness.flood import Flood, resident_mb
from tests.harness.load import post
from tests.harness.server import InterlockServer
from tests.harness.soak import dose

IDLE_MB_MAX = 120
QUEUE = 64
CONNECTIONS = 10 * QUEUE
SECONDS = min(600, dose(30))
SETTLE_SECONDS = 3
JOB = {"topic": "knowledge.read", "payload": {**PAYLOAD, "padding": "x" * 4000}}


def run(postgres_store: str) -> bool:
    """Both stores; True if every goal was met."""
    with folder() as here:
        policy = here / "policy.yaml"
        policy.write_text(POLICY)
        met = _measure("SQLite", f"sqlite:///{here}/interlock.db", policy)
        return met & _measure("PostgreSQL", postgres_store, policy)


def _measure(name: str, store: str, policy: Path) -> bool:
    env = {"INTERLOCK_LOG_LEVEL": "error", "INTERLOCK_QUEUE_MAX": str(QUEUE)}
    server = InterlockServer(store, policy=policy, env=env)
    server.start()
    try:
        time.sleep(SETTLE_SECONDS)
        idle = resident_mb(server)
        headers = server.create_key("bot", kind="agent", roles="submit").headers
        flood = Flood(server, post("/api/v1/jobs", JOB, headers=headers), connections=CONNECTIONS)
        asyncio.run(flood.pour(SECONDS))
        return _told(name, idle, flood)
    finally:
        server.close()


def _told(name: str, idle: float, flood: Flood) -> bool:
    title(f"Overload on {name}: {CONNECTIONS} callers, a queue of {QUEUE}, {SECONDS} s")
    met = ratio("idle server, resident", idle, IDLE_MB_MAX, at_most=True, unit="MB")
    third = max(1, len(flood.resident) // 3)
    parts = [max(flood.resident[n : n + third]) for n in (0, third, 2 * third)]
    for part, value in zip(("first", "second", "last"), parts, strict=True):
        figure(f"most resident memory in the {part} third", value, "MB")
    met &= ratio("memory in the last third over the second", parts[2] / parts[1], 1.1, at_most=True)
    counted = ", ".join(f"{n:,} x {status} {word}".strip() for (status, word), n in flood.codes.most_common())
    say(f"  {'answers':<58} {counted}")
    p50, p99 = quantile(flood.accepted, 0.5), quantile(flood.refused, 0.99)
    figure("accepted, p50", p50 * 1000, "ms")
    figure("refused, p50", quantile(flood.refused, 0.5) * 1000, "ms")
    figure("refused, p99", p99 * 1000, "ms")
    figure("/healthz meanwhile, p50", quantile(flood.health, 0.5) * 1000, "ms")
    return met & ratio("p99 of refusals over p50 of accepted calls", p99 / p50, 1.5, at_most=True)
