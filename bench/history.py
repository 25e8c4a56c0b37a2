"""What a long history costs: the same work on a store with a million finished records and on one with a thousand.

The history is written straight into the tables, as copies of one finished record under names of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

import asyncpg

from bench.report import figure, ratio, title
from bench.scene import folder, opened
from interlock.kernel.record import Kind
from interlock.rooms.identity.model import Caller
from interlock.service.service import Service
from interlock.store.sqlite.driver import connect
from interlock.store.statements import columns
from tests.harness.postgres import PostgresServer

FEW, MANY = 1_000, 1_000_000
ROUNDS = 60
CYCLES = 10

Cycle = Callable[[Service, Caller, int], Awaitable[object]]
# Which records to copy, by their ids, and which columns name each copy.
Records = Mapping[Kind[Any], tuple[str, tuple[str, ...]]]


class Work:
    """What is measured, and the finished records that it leaves behind."""

    def __init__(
        self, name: str, records: str, cycle: Cycle, finish: Callable[..., Awaitable[Records]]
    ) -> None:
        self.name = name
        self.records = records
        self.cycle = cycle
        self.finish = finish


def compare(works: list[Work], *, goal: float = 1.3) -> bool:
    """Both stores; True if no work costs more than the goal allows beside the long history."""
    postgres = PostgresServer()
    postgres.start()
    try:
        with folder() as here:
            met = _compared(
                "SQLite", [f"sqlite:///{here}/{size}.db" for size in ("few", "many")], works, goal
            )
        urls = [postgres.create_database() for _ in range(2)]
        return met & _compared("PostgreSQL", urls, works, goal)
    finally:
        postgres.close()


def _compared(name: str, urls: list[str], works: list[Work], goal: float) -> bool:
    found = asyncio.run(_measured(urls, works))
    met = True
    for work in works:
        few, many = found[work.name]
        title(f"History on {name}: {work.name}")
        figure(f"beside {FEW:,} {work.records}", few * 1e6, "µs")
        figure(f"beside {MANY:,} {work.records}", many * 1e6, "µs")
        met &= ratio("beside many over beside few", many / few, goal, at_most=True)
    return met


async def _measured(urls: list[str], works: list[Work]) -> dict[str, tuple[float, float]]:
    async with contextlib.AsyncExitStack() as stack:
        places: list[tuple[Service, Caller]] = []
        for url, count in zip(urls, (FEW, MANY), strict=True):
            service, bot, _ = await stack.enter_async_context(opened(url))
            for finish in dict.fromkeys(work.finish for work in works):
                await multiply(url, await finish(service, bot), count)
            places.append((service, bot))
        # What was written just now would be flushed while the first cycles wait for their own few pages.
        os.sync()
        return {work.name: await _medians(places, work) for work in works}


async def _medians(places: list[tuple[Service, Caller]], work: Work) -> tuple[float, float]:
    """The median of one cycle in each place. They take turns, so that a busy moment hits both."""
    times: list[list[float]] = [[], []]
    number = 0
    for _ in range(ROUNDS):
        for taken, (service, bot) in zip(times, places, strict=True):
            for _ in range(CYCLES):
                number += 1
                started = perf_counter()
                await work.cycle(service, bot, number)
                taken.append(perf_counter() - started)
    few, many = (statistics.median(taken[CYCLES:]) for taken in times)
    return few, many


async def multiply(url: str, records: Records, count: int) -> None:
    """Write that many copies of each record."""
    if url.startswith("sqlite:///"):
        _multiply_file(url.removeprefix("sqlite:///"), records, count)
        return
    connection = await asyncpg.connect(url)
    try:
        for kind, (record_id, names) in records.items():
            series = "generate_series(1, $2::int) AS s(n)"
            await connection.execute(
                _copies(kind, names, series).replace(":id", "$1"), record_id, count, timeout=1800
            )
            await connection.execute(f"VACUUM ANALYZE {kind.table}", timeout=1800)
    finally:
        await connection.close()


def _multiply_file(path: str, records: Records, count: int) -> None:
    database = connect(path)
    numbers = (
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :count) SELECT n FROM s"
    )
    for kind, (record_id, names) in records.items():
        database.execute(_copies(kind, names, f"({numbers}) AS s"), {"id": record_id, "count": count})
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.close()


def _copies(kind: Kind[Any], names: tuple[str, ...], series: str) -> str:
    """One statement for both dialects: every naming column gets a number, in the columns and in the body."""
    body = "r.body"
    for name in names:
        body = f"replace({body}, '\"' || r.{name} || '\"', '\"' || r.{name} || '-' || s.n || '\"')"
    given = {name: f"r.{name} || '-' || s.n" for name in names} | {"body": body}
    listed = columns(kind)
    chosen = ", ".join(given.get(name, f"r.{name}") for name in listed)
    return (
        f"INSERT INTO {kind.table} ({', '.join(listed)}) SELECT {chosen} FROM {kind.table} r CROSS JOIN {series} "
        "WHERE r.id = :id"
    )
