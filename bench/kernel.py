"""The kernel: distinct approvals against the store's own limits, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import apsw

from bench import pgbench
from bench.report import figure, interleaved, ratio, title
from bench.scene import approve, folder, many, opened, submit
from tests.harness.postgres import PostgresServer

CALLERS = 64
COUNT = 10_000  # long enough that the first few, which prepare their statements, do not count


def run() -> bool:
    """Both stores; True if every goal was met."""
    return _sqlite() & _postgres()


def _sqlite() -> bool:
    title(f"SQLite (synchronous=FULL): distinct approvals, {CALLERS} callers")
    with folder() as here:
        contestants: dict[str, Callable[[], float]] = {
            "raw": lambda: _raw_commits(here),
            "one": lambda: asyncio.run(_approvals(f"sqlite:///{here}/one.db", callers=1, count=400)),
            "kernel": lambda: asyncio.run(_approvals(f"sqlite:///{here}/kernel.db")),
        }
        found = interleaved(contestants)
    figure("raw: one-row commits, one connection", found["raw"], "commits/s")
    figure("kernel, one caller: one commit each", found["one"], "approvals/s")
    figure(f"kernel, {CALLERS} callers", found["kernel"], "approvals/s")
    return ratio("batched over one commit per approval", found["kernel"] / found["one"], 6)


def _postgres() -> bool:
    title(f"PostgreSQL: distinct approvals, {CALLERS} callers")
    server = PostgresServer()
    server.start()
    try:
        contestants: dict[str, Callable[[], float]] = {
            "bare": lambda: pgbench.bare_updates(server, CALLERS),
            "written": lambda: pgbench.written_approvals(server, CALLERS),
            "equivalent": lambda: pgbench.equivalent_approvals(server, CALLERS),
            "kernel": lambda: asyncio.run(_approvals(server.create_database())),
        }
        found = interleaved(contestants, rounds=7)  # pgbench varies by a third from run to run
    finally:
        server.close()
    figure(f"raw: pgbench, one bare row updated a commit, {CALLERS} clients", found["bare"], "commits/s")
    figure("pgbench, what an approval writes, in one statement a commit", found["written"], "commits/s")
    figure("pgbench, what it reads and writes, likewise", found["equivalent"], "commits/s")
    figure(f"kernel, {CALLERS} callers", found["kernel"], "approvals/s")
    figure("kernel over the bare update", found["kernel"] / found["bare"], "x")
    figure("kernel over the writes alone", found["kernel"] / found["written"], "x")
    return ratio("kernel over the equivalent statement", found["kernel"] / found["equivalent"], 2)


async def _approvals(store: str, *, callers: int = CALLERS, count: int = COUNT) -> float:
    async with opened(store) as (service, bot, ann):
        jobs: list[str] = [""] * count

        async def put(number: int) -> None:
            jobs[number] = await submit(service, bot, number)

        await many(count, CALLERS, put)
        return await many(count, callers, lambda number: approve(service, ann, jobs[number]))


def _raw_commits(here: Path, seconds: float = 2.0) -> float:
    connection = apsw.Connection(str(here / "raw.db"))
    connection.execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t (n)"
    ).fetchall()
    started, count = perf_counter(), 0
    while perf_counter() - started < seconds:
        connection.execute("INSERT INTO t VALUES (?)", (count,))
        count += 1
    connection.close()
    return count / seconds
