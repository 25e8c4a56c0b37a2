"""Opening a store: empty, older, newer, half migrated, or by several processes at once."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import msgspec
import pytest

from interlock.kernel.storage import SchemaTooNew, StoreDown
from interlock.store.catalogue import Migration, migrations
from interlock.store.postgres import store as postgres
from tests.harness.store_places import Place, PostgresPlace, SqlitePlace, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Raise
from tests.store.migrations.conftest import Knows
from tests.store.migrations.schemas import dump

OPEN = """
import asyncio, sys
from interlock.store import store_for
async def main():
    store = store_for(sys.argv[1])
    await store.open()
    await store.close()
asyncio.run(main())
"""


async def reopened(place: Place) -> None:
    store = place.store()
    await store.open()
    await store.close()


def url_of(place: Place) -> str:
    if isinstance(place, SqlitePlace):
        return f"sqlite:///{place.path}"
    assert isinstance(place, PostgresPlace)
    return place.url


@pytest.mark.parametrize("older", range(1, len(migrations("sqlite")) + 1))
async def test_a_migrated_store_has_the_schema_of_a_fresh_one(
    empty_place: Place, program_knows: Knows, older: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program_knows(lambda every: every[:older])
    await reopened(empty_place)
    program_knows(lambda every: every)
    await reopened(empty_place)
    migrated = await dump(empty_place)
    if isinstance(empty_place, SqlitePlace):
        fresh: Place = SqlitePlace(tmp_path_factory.mktemp("fresh") / "x.db")
        await reopened(fresh)
        assert migrated == await dump(fresh)
        await fresh.close()
    else:
        await _forget_everything(empty_place)
        await reopened(empty_place)
        assert migrated == await dump(empty_place)


async def _forget_everything(place: Place) -> None:
    await place.rows("DROP SCHEMA public CASCADE")
    await place.rows("CREATE SCHEMA public")


async def test_records_of_an_older_schema_are_still_there_after_migrating(
    empty_place: Place, program_knows: Knows
) -> None:
    program_knows(lambda every: every[:1])
    await reopened(empty_place)
    body = msgspec.json.encode(Counter(tenant=TENANT, id="a", version=1, count=7)).decode()
    await empty_place.rows(
        f"INSERT INTO {COUNTERS.table} (tenant, id, version, body, kind) "
        f"VALUES ('{TENANT}', 'a', 1, '{body}', 'counter')"
    )
    program_knows(lambda every: every)
    async with serving(empty_place.store()) as server:
        assert (await server.kernel.run(Raise(name="a"))).count == 8


async def test_opening_again_changes_nothing(empty_place: Place) -> None:
    await reopened(empty_place)
    before = await dump(empty_place)
    await reopened(empty_place)
    assert await dump(empty_place) == before


async def test_an_older_store_opens_without_a_warning(
    empty_place: Place, program_knows: Knows, caplog: pytest.LogCaptureFixture
) -> None:
    program_knows(lambda every: every[:1])
    await reopened(empty_place)
    program_knows(lambda every: every)
    with caplog.at_level(logging.INFO):
        await reopened(empty_place)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_newer_store_is_refused_with_the_next_step_and_left_alone(
    empty_place: Place, program_knows: Knows
) -> None:
    ahead = len(migrations("sqlite")) + 1
    future = Migration(ahead, "future", "CREATE TABLE from_the_future (id TEXT)")
    program_knows(lambda every: (*every, future))
    await reopened(empty_place)
    before = await dump(empty_place)
    program_knows(lambda every: every)
    with pytest.raises(SchemaTooNew, match=rf"schema {ahead}.*up to {ahead - 1}.*run the newer Interlock"):
        await reopened(empty_place)
    assert await dump(empty_place) == before


async def test_a_migration_that_fails_leaves_the_store_as_it_was(
    empty_place: Place, program_knows: Knows
) -> None:
    await reopened(empty_place)
    before = await dump(empty_place)
    bad = Migration(len(migrations("sqlite")) + 1, "bad", "CREATE TABLE half (id TEXT); SELECT no_such_thing")
    program_knows(lambda every: (*every, bad))
    with pytest.raises(Exception, match="no_such_thing"):
        await reopened(empty_place)
    program_knows(lambda every: every)
    assert await dump(empty_place) == before
    await reopened(empty_place)


async def test_a_migration_may_take_longer_than_any_other_statement(
    postgres_url: str, program_knows: Knows, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PostgresPlace(postgres_url)
    await reopened(place)
    monkeypatch.setattr(postgres, "_OPENING_SECONDS", 1.0)
    slow = Migration(len(migrations("postgres")) + 1, "slow", "SELECT pg_sleep(1.5)")
    program_knows(lambda every: (*every, slow))
    await asyncio.gather(reopened(place), reopened(place))
    assert await place.rows("SELECT max(number) FROM schema_versions") == [(slow.number,)]
    await place.close()


async def test_processes_that_open_an_empty_store_at_once_migrate_it_once(empty_place: Place) -> None:
    opening = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", OPEN, url_of(empty_place), stderr=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    said = [await process.communicate() for process in opening]
    assert [process.returncode for process in opening] == [0] * 4, said
    assert [errors for _, errors in said] == [b""] * 4
    if isinstance(empty_place, PostgresPlace):
        rows = await empty_place.rows("SELECT number, name FROM schema_versions ORDER BY number")
        assert rows == [(migration.number, migration.name) for migration in migrations("postgres")]
    async with serving(empty_place.store()) as server:
        await server.kernel.run(Raise(name="a"))
        assert await server.store.get(COUNTERS, TENANT, "a") is not None


async def test_a_file_that_cannot_be_made_is_named() -> None:
    with pytest.raises(StoreDown, match=r"/proc/nowhere/x\.db"):
        await SqlitePlace(Path("/proc/nowhere/x.db")).store().open()
