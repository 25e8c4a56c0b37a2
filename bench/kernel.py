"""The kernel: distinct approvals against the store's own limits, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import apsw

from bench.report import figure, interleaved, ratio, title
from bench.scene import approve, folder, many, opened, submit
from tests.harness.postgres import PostgresServer

CALLERS = 64
COUNT = 3000


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
            "pgbench": lambda: _pgbench(server),
            "kernel": lambda: asyncio.run(_approvals(server.create_database())),
        }
        found = interleaved(contestants)
    finally:
        server.close()
    figure(f"pgbench, one update a commit, {CALLERS} clients", found["pgbench"], "commits/s")
    figure(f"kernel, {CALLERS} callers", found["kernel"], "approvals/s")
    return ratio("kernel over pgbench", found["kernel"] / found["pgbench"], 2)


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


def _pgbench(server: PostgresServer, seconds: int = 4) -> float:
    """What PostgreSQL does with one equivalent update per commit at the same number of clients."""
    program = _pgbench_program()
    url = server.create_database()
    dbname = url.rsplit("/", 1)[1]
    server.execute("CREATE TABLE j (id int PRIMARY KEY, state text, body text)", dbname=dbname)
    server.execute(
        f"INSERT INTO j SELECT n, 'APPROVAL', repeat('x', 900) FROM generate_series(1, {COUNT}) n",
        dbname=dbname,
    )
    with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as script:
        script.write(
            f"\\set id random(1, {COUNT})\nUPDATE j SET state = 'PENDING', body = repeat('y', 900) WHERE id = :id;\n"
        )
    Path(script.name).chmod(0o644)
    command = [
        program,
        "-n",
        "-M",
        "prepared",
        "-c",
        str(CALLERS),
        "-j",
        "2",
        "-T",
        str(seconds),
        "-f",
        script.name,
        url,
    ]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PGSSLMODE": "disable"}
    )
    Path(script.name).unlink()
    match = re.search(r"tps = ([0-9.]+)", said.stdout)
    return float(match[1]) if match else 0.0


def _pgbench_program() -> str:
    program = shutil.which("pgbench")
    if program is None:
        raise SystemExit("pgbench is not installed; install PostgreSQL's client programs to compare with it")
    return program
