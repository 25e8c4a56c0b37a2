"""A PostgreSQL with another team's settings: their search path, their encoding, their rights, their time limits."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.store.catalogue import Migration, migrations
from tests.harness.postgres import PostgresServer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import Raise
from tests.store.migrations.conftest import Knows, program_knows

__all__ = ["program_knows"]


async def set_for(place: PostgresPlace, setting: str) -> None:
    name = place.url.rpartition("/")[2]
    await place.rows(f'ALTER DATABASE "{name}" SET {setting}')


async def reopened(place: PostgresPlace) -> None:
    store = place.store()
    await store.open()
    await store.close()


async def test_a_schema_of_ones_own_holds_the_whole_store(postgres_place: PostgresPlace) -> None:
    await postgres_place.rows("CREATE SCHEMA apart")
    await set_for(postgres_place, "search_path = apart")
    async with serving(postgres_place.store()) as server:
        assert (await server.kernel.run(Raise(name="a"))).count == 1
    assert await postgres_place.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


async def test_a_schema_that_comes_first_later_does_not_hide_the_store(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        await server.kernel.run(Raise(name="a"))
    await postgres_place.rows(f"CREATE SCHEMA {urlsplit(postgres_place.url).username}")
    async with serving(postgres_place.store()) as server:
        assert (await server.kernel.run(Raise(name="a"))).count == 2


async def test_a_database_that_cannot_keep_every_text_is_refused(private_postgres: PostgresServer) -> None:
    made = "CREATE DATABASE narrow TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
    private_postgres.execute(made)
    with pytest.raises(StoreDown, match=r"LATIN1.*ENCODING 'UTF8'"):
        await PostgresPlace(private_postgres.url("narrow")).store().open()


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_host_that_hangs_or_is_gone_keeps_nobody_from_the_next(
    postgres_url: str, proxy: PostgresProxy, hangs: bool
) -> None:
    first, second = urlsplit(proxy.url), urlsplit(postgres_url)
    both = f"{first.netloc},{second.netloc.rpartition('@')[2]}"
    place = PostgresPlace(postgres_url.replace(second.netloc, both))
    if hangs:
        proxy.stall()
    else:
        proxy.refuse()
    async with serving(place.store(), KernelLimits(acquire_seconds=20)) as server:
        assert (await server.kernel.run(Raise(name="a"))).count == 1
        assert await server.counts("a") == [1]


async def test_a_role_without_the_right_to_make_tables_is_told_so(postgres_place: PostgresPlace) -> None:
    await postgres_place.rows("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    await postgres_place.rows("DROP ROLE IF EXISTS weak")
    await postgres_place.rows("CREATE ROLE weak LOGIN")
    user = f"{urlsplit(postgres_place.url).username}@"
    with pytest.raises(StoreDown, match=r"weak (may not do this|has no schema to make tables in)"):
        await postgres_place.store(url=postgres_place.url.replace(user, "weak@")).open()


async def test_a_migration_outlasts_the_time_that_a_role_may_take(
    postgres_place: PostgresPlace, program_knows: Knows
) -> None:
    await set_for(postgres_place, "statement_timeout = '200ms'")
    slow = Migration(len(migrations("postgres")) + 1, "slow", "SELECT pg_sleep(0.5)")
    program_knows(lambda every: (*every, slow))
    await reopened(postgres_place)
    assert await postgres_place.rows("SELECT max(number) FROM schema_versions") == [(slow.number,)]


async def test_a_role_that_wants_no_warnings_hides_no_unconfirmed_commit(
    postgres_place: PostgresPlace,
) -> None:
    await set_for(postgres_place, "client_min_messages = error")
    store = postgres_place.store()
    async with serving(store), store._connections.writer() as writer:
        await writer.session.execute("DO $$ BEGIN RAISE WARNING 'no standby confirmed'; END $$")
        assert writer.warnings == ["no standby confirmed"]


@pytest.mark.parametrize(
    ("taken", "given_back"),
    [
        ("ALTER TABLE principals RENAME TO away", "ALTER TABLE away RENAME TO principals"),
        ("REVOKE SELECT ON principals FROM app", "GRANT SELECT ON principals TO app"),
    ],
)
async def test_a_table_out_of_reach_for_a_while_is_an_outage(
    postgres_place: PostgresPlace, taken: str, given_back: str
) -> None:
    await reopened(postgres_place)
    await postgres_place.rows("DROP ROLE IF EXISTS app")
    await postgres_place.rows("CREATE ROLE app LOGIN")
    await postgres_place.rows("GRANT USAGE ON SCHEMA public TO app")
    await postgres_place.rows("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    user = f"{urlsplit(postgres_place.url).username}@"
    store = postgres_place.store(url=postgres_place.url.replace(user, "app@"))
    async with serving(store, KernelLimits(acquire_seconds=0.5)) as server:
        await server.kernel.run(Raise(name="a"))
        await postgres_place.rows(taken)
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
        with pytest.raises(StoreDown):
            await server.counts("a")
        await postgres_place.rows(given_back)
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2
    await postgres_place.rows("DROP OWNED BY app")
