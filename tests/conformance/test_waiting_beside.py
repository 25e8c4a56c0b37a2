"""Two services on one SQLite file: whoever waits for the lock sleeps, and is woken by whoever had it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite import write_lock as writer_lock
from interlock.store.sqlite.driver import Database, try_to_begin
from tests.conformance.places import Server, SqlitePlace, serving
from tests.kernel.counters import Raise

HANG_SECONDS = 30
PATIENT = KernelLimits(acquire_seconds=HANG_SECONDS)


@asynccontextmanager
async def two(place: SqlitePlace) -> AsyncGenerator[tuple[Server, Server, Callable[[], object]]]:
    """Two services of which the first stops in the middle of its next COMMIT, until it is told to go on."""
    go_on = threading.Event()
    first, second = place.store(), place.store()
    async with (
        asyncio.timeout(HANG_SECONDS),
        serving(first, PATIENT) as one,
        serving(second, PATIENT) as other,
    ):
        await other.kernel.run(Raise(name="a"))
        first._aside._thread.submit(go_on.wait)
        try:
            yield one, other, go_on.set
        finally:
            go_on.set()


async def has_the_lock(store: object) -> None:
    assert isinstance(store, SqliteStore)
    while not (store._writer is not None and store._writer.in_transaction):
        await asyncio.sleep(0.001)


async def test_a_commit_wakes_the_service_that_waits_for_the_lock(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_lock, "_TOLD_SECONDS", 2 * HANG_SECONDS)
    async with two(sqlite_place) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        waiting = asyncio.create_task(other.kernel.run(Raise(name="a")))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        go_on()
        assert [(await holding).count, (await waiting).count] == [2, 3]


async def test_a_service_that_waits_for_the_lock_asks_for_it_a_few_times_and_answers_others_meanwhile(
    sqlite_place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def counted(database: Database) -> None:
        asked.append(asyncio.get_running_loop().time())
        try_to_begin(database)

    monkeypatch.setattr(writer_lock, "try_to_begin", counted)
    async with two(sqlite_place) as (one, other, go_on):
        holding = asyncio.create_task(one.kernel.run(Raise(name="a")))
        await has_the_lock(one.store)
        asked.clear()
        waiting = asyncio.create_task(other.kernel.run(Raise(name="a")))
        for _ in range(50):
            await asyncio.sleep(0.01)
            assert await other.counts("a") == [1]
        tries, seconds = len(asked), asked[-1] - asked[0]
        go_on()
        assert (await waiting).count + (await holding).count == 5
    assert tries >= 2
    assert tries < 10 + 150 * seconds, "it keeps looking instead of sleeping"
