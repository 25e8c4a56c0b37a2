"""Readers of a SQLite file have connections of their own: neither they nor the writer wait for each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import apsw
import pytest

from interlock.store.catalogue import NamedSql
from interlock.store.sqlite import SqliteStore
from tests.harness.store_places import Server, SqlitePlace, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Raise

HANG_SECONDS = 60
LISTING = {"tenant": TENANT, "after": "", "limit": 100}
LONG_READ = "SELECT count(*), min(until_told()) FROM principals"


@dataclass
class Sign:
    """Lets a query stop half-way, in the middle of its statement."""

    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def wait(self, *_: apsw.SQLiteValue) -> int:
        self.reached.set()
        assert self.go_on.wait(HANG_SECONDS)
        return 0


@pytest.fixture
def sign() -> Iterator[Sign]:
    """Every connection made during the test knows `until_told()`."""
    made = Sign()

    def teach(connection: apsw.Connection) -> None:
        connection.create_scalar_function("until_told", made.wait, 0)

    apsw.connection_hooks.append(teach)
    yield made
    made.go_on.set()
    apsw.connection_hooks.remove(teach)


async def names_listed(server: Server) -> int:
    return len(await server.store.query("identity.list_principals", LISTING))


async def test_a_read_half_way_through_stops_neither_decisions_nor_other_reads(
    sqlite_place: SqlitePlace, sign: Sign
) -> None:
    store = sqlite_place.store()
    async with serving(store) as server, asyncio.timeout(HANG_SECONDS):
        await server.kernel.run(Raise(name="a"))
        reading = asyncio.create_task(long_read(store))
        assert await asyncio.to_thread(sign.reached.wait, HANG_SECONDS)

        assert (await server.kernel.run(Raise(name="b"))).count == 1
        assert await server.counts("a", "b") == [1, 1]
        assert await names_listed(server) == 2

        sign.go_on.set()
        assert await reading == 1, "a read must show the moment at which it began"


async def test_reads_go_on_beside_a_commit_that_takes_long_and_do_not_see_it_early(
    sqlite_place: SqlitePlace,
) -> None:
    go_on = threading.Event()
    store = sqlite_place.store()
    async with serving(store) as server, asyncio.timeout(HANG_SECONDS):
        await server.kernel.run(Raise(name="a"))
        store._commits.submit(go_on.wait)
        raising = asyncio.create_task(server.kernel.run(Raise(name="a")))
        try:
            while not (store._writer is not None and store._writer.in_transaction):
                await asyncio.sleep(0.001)
            assert not raising.done()
            assert await server.counts("a") == [1]
            await store.ping(1.0)
            assert await names_listed(server) == 1
        finally:
            go_on.set()
        assert (await raising).count == 2
        assert await store.get(COUNTERS, TENANT, "a") == await raising


async def long_read(store: SqliteStore) -> int:
    """How many records a read counts that began before the sign and ended after it."""
    rows = await store._queries.run(NamedSql("a.long_read", LONG_READ, LONG_READ, ()), {})
    return int(rows[0][0])
