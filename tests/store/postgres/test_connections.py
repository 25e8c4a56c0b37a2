"""Connections that batches are written on: kept while they are good, closed once they may not be or with the store."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg
import pytest

from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, LockTimeout, StoreDown
from interlock.store.postgres.connections import Writer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import Raise, once
from tests.store.postgres.test_reading import connected


async def backend(writer: Writer) -> int:
    return int(await writer.session.fetchval("SELECT pg_backend_pid()"))


async def test_a_writer_has_a_transaction_that_is_rolled_back_unless_it_is_committed(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url) as connections:
        async with connections.writer() as writer:
            await writer.session.execute("CREATE TABLE kept (n int)")
            await writer.session.execute("COMMIT")
        async with connections.writer() as writer:
            assert writer.session.is_in_transaction()
            await writer.session.execute("INSERT INTO kept VALUES (1)")
        assert not writer.session.is_in_transaction()
    assert await postgres_place.rows("SELECT count(*) FROM kept") == [(0,)]


async def test_a_writer_is_kept_after_an_error_that_ended_nothing_but_its_transaction(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url) as connections:
        async with connections.writer() as writer:
            first = await backend(writer)
        with pytest.raises(asyncpg.PostgresSyntaxError):
            async with connections.writer() as writer:
                await writer.session.execute("SELEC")
        async with connections.writer() as writer:
            assert await backend(writer) == first


async def test_a_connection_that_the_server_ends_while_it_is_idle_is_replaced(proxy: PostgresProxy) -> None:
    async with connected(proxy.url) as connections:
        for ends in (proxy.cut_all, proxy.say_goodbye):
            async with connections.writer() as writer:
                first = await backend(writer)
            ends()
            await asyncio.sleep(0.1)
            async with connections.writer() as writer:
                assert await backend(writer) != first


async def test_what_a_batch_gave_up_waiting_for_is_cancelled_before_the_connection_is_used_again(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url, io_seconds=30) as connections:
        with contextlib.suppress(LockTimeout):
            async with connections.writer() as busy:
                first = await backend(busy)
                with pytest.raises(TimeoutError):
                    await busy.session.execute("SELECT pg_sleep(600)", timeout=0.05)
                raise LockTimeout("a batch gave up")
        async with connections.writer() as writer:
            assert await writer.session.fetchval("SELECT 1") == 1
        asleep = f"SELECT 1 FROM pg_stat_activity WHERE pid = {first} AND wait_event = 'PgSleep'"
        assert await postgres_place.rows(asleep) == []


@pytest.mark.parametrize(
    "error",
    [
        CommitUnknown("no answer"),
        CommitUnconfirmed("no standby"),
        asyncpg.ReadOnlySQLTransactionError("no longer the primary"),
        TimeoutError("the server is still at something"),
    ],
)
async def test_a_connection_that_said_what_nobody_can_rely_on_is_not_used_again(
    postgres_place: PostgresPlace, error: Exception
) -> None:
    async with connected(postgres_place.url) as connections:
        async with connections.writer() as writer:
            first = await backend(writer)
        async with connections.writer() as writer:
            assert await backend(writer) == first
        with pytest.raises((CommitUnknown, CommitUnconfirmed, StoreDown)):
            async with connections.writer():
                raise error
        async with connections.writer() as writer:
            assert await backend(writer) != first


async def test_a_writer_whose_caller_is_cancelled_is_not_used_again(postgres_place: PostgresPlace) -> None:
    async with connected(postgres_place.url) as connections:

        async def sleep() -> None:
            async with connections.writer() as writer:
                await writer.session.execute("SELECT pg_sleep(600)", timeout=600)

        sleeping = asyncio.create_task(sleep())
        await asyncio.sleep(0.2)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        async with connections.writer() as writer:
            assert await writer.session.fetchval("SELECT 1") == 1


async def test_a_prepared_statement_that_is_missed_is_told_as_a_pooler_that_shares_connections(
    postgres_place: PostgresPlace,
) -> None:
    async with connected(postgres_place.url) as connections:
        with pytest.raises(StoreDown, match="pool_mode = session"):
            async with connections.writer() as writer:
                await writer.session.execute("EXECUTE prepared_elsewhere")
        with pytest.raises(StoreDown, match="pool_mode = session"):
            await connections.read("EXECUTE prepared_elsewhere", ())


OTHERS = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def test_a_batch_that_changes_nothing_leaves_no_transaction_open(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        await server.kernel.run(once("key", hours=1))
        assert (await server.kernel.run(once("key", hours=1))).replayed
        assert await postgres_place.rows(f"SELECT state FROM {OTHERS} AND state LIKE 'idle in %'") == []


@pytest.mark.parametrize("listens", [True, False])
async def test_a_store_that_is_closed_leaves_no_connection(
    postgres_place: PostgresPlace, listens: bool
) -> None:
    store = postgres_place.store()
    async with serving(store) as server:
        if listens:  # Without listening, it sends notes to any server.
            await store.listen(lambda _: None)
        await server.kernel.run(Raise(name="a"))
        assert await server.counts("a") == [1]
        assert not await store.committed("batch_unknown", 10.0)
        assert await postgres_place.rows(f"SELECT 1 FROM {OTHERS}")
    async with asyncio.timeout(10):
        while await postgres_place.rows(f"SELECT 1 FROM {OTHERS}"):
            await asyncio.sleep(0.02)
