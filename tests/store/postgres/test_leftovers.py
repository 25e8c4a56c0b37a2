"""What a batch and a closed store leave behind on PostgreSQL: no open transaction, no connection."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import Raise, once

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
        if listens:  # Or else it tells whoever there may be.
            await store.listen(lambda _: None)
        await server.kernel.run(Raise(name="a"))
        assert await server.counts("a") == [1]
        assert not await store.committed("batch_unknown", 10.0)
        assert await postgres_place.rows(f"SELECT 1 FROM {OTHERS}")
    async with asyncio.timeout(10):
        while await postgres_place.rows(f"SELECT 1 FROM {OTHERS}"):
            await asyncio.sleep(0.02)
