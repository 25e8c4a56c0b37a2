"""Reads that wait in line for PostgreSQL: a crowd is `Overloaded`, a silent server is `StoreDown`, never mixed up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.kernel.refusal import Overloaded
from interlock.kernel.storage import StoreDown
from interlock.store.postgres.connections import Connections
from tests.harness.postgres import PostgresServer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import PostgresPlace

READERS = 4
SLOW = "SELECT pg_sleep(0.1)"


@asynccontextmanager
async def connected(url: str, io_seconds: float = 1.5) -> AsyncGenerator[Connections]:
    """Connections of one store, all its readers made."""
    connections = Connections(url, lanes=1, io_seconds=io_seconds)
    try:
        await asyncio.gather(*(connections.read(SLOW, (), 30) for _ in range(READERS)))
        yield connections
    finally:
        await connections.close()


async def tally(*asked: Awaitable[Any]) -> Counter[str]:
    """How they ended."""
    ended = await asyncio.gather(*asked, return_exceptions=True)
    return Counter(type(each).__name__ if isinstance(each, Exception) else "answered" for each in ended)


async def keep_busy(connections: Connections, until: asyncio.Event) -> None:
    """Ask one slow question after another, with all the time there is."""
    while not until.is_set():
        await connections.read(SLOW, (), 30)


async def test_a_crowd_of_reads_is_overloaded_while_the_database_answers(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url) as connections:
        ended = await tally(*(connections.read(SLOW, ()) for _ in range(150)))
        assert ended["answered"] >= READERS
        assert ended["Overloaded"] >= 40
        assert set(ended) == {"answered", "Overloaded"}


async def test_an_overloaded_read_says_how_long_to_stay_away(postgres_place: PostgresPlace) -> None:
    async with connected(postgres_place.url) as connections:
        done = asyncio.Event()
        crowd = [asyncio.create_task(keep_busy(connections, done)) for _ in range(10 * READERS)]
        await asyncio.sleep(0.2)
        with pytest.raises(Overloaded, match="answered others") as refused:
            await connections.read("SELECT 1", ())
        assert refused.value.retry_after_seconds >= 1.5
        done.set()
        await asyncio.gather(*crowd)


async def test_a_database_that_has_too_much_to_do_is_there(postgres_place: PostgresPlace) -> None:
    """A `ping` succeeds: waiting for the store to come back would gain nothing."""
    async with connected(postgres_place.url) as connections:
        done = asyncio.Event()
        crowd = [asyncio.create_task(keep_busy(connections, done)) for _ in range(10 * READERS)]
        await asyncio.sleep(0.2)
        await connections.ping(1.5)
        done.set()
        await asyncio.gather(*crowd)


async def test_a_crowd_before_a_stalled_database_hears_that_it_does_not_answer(proxy: PostgresProxy) -> None:
    async with connected(proxy.url) as connections:
        proxy.stall()
        ended = await tally(*(connections.read(SLOW, ()) for _ in range(100)))
        assert set(ended) == {"StoreDown"}
        with pytest.raises(StoreDown):
            await connections.ping(0.2)
        proxy.resume()


async def test_a_crowd_before_a_paused_server_hears_that_it_does_not_answer(
    private_postgres: PostgresServer, private_place: PostgresPlace
) -> None:
    async with connected(private_place.url) as connections:
        private_postgres.pause()
        ended = await tally(*(connections.read(SLOW, ()) for _ in range(100)))
        private_postgres.resume()
        assert set(ended) == {"StoreDown"}
        assert await tally(connections.read(SLOW, (), 30)) == {"answered": 1}


async def test_a_database_that_falls_silent_under_a_crowd_is_unavailable_to_whoever_comes_after(
    proxy: PostgresProxy,
) -> None:
    async with connected(proxy.url) as connections:
        early = [asyncio.create_task(connections.read(SLOW, ())) for _ in range(100)]
        await asyncio.sleep(0.3)
        proxy.stall()
        late = await tally(*(connections.read(SLOW, ()) for _ in range(100)))
        proxy.resume()
        assert set(late) == {"StoreDown"}
        assert sum((await tally(*early)).values()) == 100


async def test_answers_to_writers_show_that_the_database_is_there(postgres_place: PostgresPlace) -> None:
    """Four statements that take all the time there is hold up the readers; the writer goes on."""
    async with connected(postgres_place.url) as connections:
        stuck = [asyncio.create_task(connections.read("SELECT pg_sleep(4)", (), 30)) for _ in range(READERS)]
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(connections.read("SELECT 1", ()))
        while not waiting.done():
            async with connections.writer() as writer:
                await writer.session.execute("SELECT 1", timeout=30)
        assert isinstance(waiting.exception(), Overloaded)
        await asyncio.gather(*stuck)


async def test_a_read_that_outlasts_its_store_leaves_no_connection(postgres_place: PostgresPlace) -> None:
    async with connected(postgres_place.url) as connections:
        reading = asyncio.create_task(connections.read(SLOW, ()))
        await asyncio.sleep(0.02)
        await connections.close()
        await reading
        async with asyncio.timeout(30):
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            while await postgres_place.rows(f"SELECT 1 FROM pg_stat_activity WHERE {others}"):
                await asyncio.sleep(0.02)
