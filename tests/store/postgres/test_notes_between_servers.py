"""A server tells others what it woke only if there are any, and a newcomer misses nothing from then on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from interlock.kernel.record import NOTHING
from interlock.kernel.storage import Transaction, WriteConflict
from interlock.kernel.world import Changes
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import Heard, PostgresPlace, Server, serving, two_servers
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Raise, counter_topic


@contextlib.asynccontextmanager
async def overheard(place: PostgresPlace) -> AsyncGenerator[list[str]]:
    """Every note that servers send, heard on a plain connection."""
    notes: list[str] = []
    raw = await asyncpg.connect(place.url)
    await raw.add_listener("interlock", lambda *note: notes.append(str(note[-1])))
    try:
        yield notes
    finally:
        await raw.close()


async def until_alone(server: Server, notes: list[str]) -> None:
    async with asyncio.timeout(30):
        while True:
            notes.clear()
            await server.kernel.run(Raise(name="again"))
            await asyncio.sleep(0.2)
            if not notes:
                return


async def test_a_server_that_is_alone_tells_nobody_until_another_comes(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as first, overheard(postgres_place) as notes:
        await first.store.listen(Heard())
        await until_alone(first, notes)
        async with serving(postgres_place.store()) as second:
            heard = Heard()
            await second.store.listen(heard)
            await heard.next()
            await asyncio.sleep(0.2)
            await first.kernel.run(Raise(name="a"))
            await heard.next()
            assert heard.topics[-1] == {counter_topic("a")}
            await asyncio.sleep(2.5)  # It has looked around more than once.
            await first.kernel.run(Raise(name="b"))
            await heard.next()
            assert heard.topics[-1] == {counter_topic("b")}
        await until_alone(first, notes)


async def test_whoever_does_not_listen_tells_those_who_do(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server, serving(postgres_place.store()) as silent:
        heard = Heard()
        await server.store.listen(heard)
        await heard.next()
        await asyncio.sleep(1.5)
        await silent.kernel.run(Raise(name="a"))
        await heard.next()
        assert heard.topics[-1] == {counter_topic("a")}


async def test_nobody_is_told_of_what_was_not_committed(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[frozenset[str]] = []
    store = postgres_place.store()
    async with serving(store) as server:
        await server.kernel.run(Raise(name="a"))
        monkeypatch.setattr(store._hints, "tell", told.append)
        again = Changes([(COUNTERS, Counter(tenant=TENANT, id="a", version=1))], [], [], frozenset({"woken"}))
        with pytest.raises(WriteConflict):
            await store.transact(Transaction("batch_1", NOTHING, lambda _: NOTHING, lambda _: again, 1.0))
        assert told == []


async def test_a_server_that_cannot_listen_does_not_take_itself_for_alone(proxy: PostgresProxy) -> None:
    store = PostgresPlace(proxy.url).store()
    async with serving(store), asyncio.timeout(30):
        await store.listen(Heard())
        while store._hints._others_listen:
            await asyncio.sleep(0.02)
        proxy.refuse()
        proxy.cut_all()
        while not store._hints._others_listen:
            await asyncio.sleep(0.02)
        proxy.accept()


async def test_postgres_says_which_topics_were_woken_or_that_there_were_too_many(
    postgres_place: PostgresPlace,
) -> None:
    async with two_servers(postgres_place) as (one, other):
        heard = Heard()
        await other.store.listen(heard)
        await heard.next()
        await one.outcomes(Raise(name="a"), Raise(name="b"), Raise(name="c", limit=0))
        await heard.next()
        assert heard.topics[-1] == {counter_topic("a"), counter_topic("b")}
        before = len(heard.topics)
        many = [f"{n:0100d}" for n in range(100)]
        await one.outcomes(*(Raise(name=name) for name in many))
        while frozenset[str]().union(*filter(None, heard.topics[before:])) < {*map(counter_topic, many)}:
            await heard.next()
        assert None not in heard.topics[before:]
        await one.outcomes(*(Raise(name=f"{n:02000d}") for n in range(100)))
        while heard.topics[-1] is not None:
            await heard.next()


async def test_a_listener_that_is_cut_off_comes_back_and_says_so(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        heard = Heard()
        await server.store.listen(heard)
        await heard.next()
        await postgres_place.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE '%pg_locks%' AND pid <> pg_backend_pid()"
        )
        await heard.next()
        assert heard.topics == [None, None]
