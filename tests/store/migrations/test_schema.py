"""Both dialects have one schema, every kind has its columns in it, and every named query fits it."""

from __future__ import annotations

import importlib
import pkgutil
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import apsw
import pytest

import interlock
from interlock.kernel.record import Pick
from interlock.store.catalogue import ROOMS, all_names, kinds, migrations, named_sql
from tests.harness.store_places import Place, PostgresPlace, SqlitePlace
from tests.store.migrations.schemas import columns, unique_keys

# Only ever added to, and found by their number; their ids are looked up by nobody.
APPEND_ONLY = {"audit_entries", "events"}


async def opened(place: Place) -> None:
    store = place.store()
    await store.open()
    await store.close()


def picks() -> list[type[Pick[Any]]]:
    """Every pick of every room."""
    for room in ROOMS:
        package = importlib.import_module(f"interlock.rooms.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return [pick for pick in Pick.__subclasses__() if pick.__module__.startswith(interlock.__name__)]


def test_both_dialects_have_the_same_migrations() -> None:
    sqlite, postgres = migrations("sqlite"), migrations("postgres")
    assert [(m.number, m.name) for m in sqlite] == [(m.number, m.name) for m in postgres]
    assert [m.number for m in sqlite] == list(range(1, len(sqlite) + 1))


async def test_both_dialects_keep_records_in_the_same_columns(tmp_path: Path, postgres_url: str) -> None:
    sqlite, postgres = SqlitePlace(tmp_path / "x.db"), PostgresPlace(postgres_url)
    await opened(sqlite)
    await opened(postgres)
    tables = {"batches", *(kind.table for kind in kinds().values())}
    of_sqlite, of_postgres = await columns(sqlite), await columns(postgres)
    assert {table: of_sqlite[table] for table in tables} == {table: of_postgres[table] for table in tables}
    await sqlite.close()
    await postgres.close()


async def test_every_kind_has_a_table_with_its_columns(empty_place: Place) -> None:
    await opened(empty_place)
    known = await columns(empty_place)
    for kind in kinds().values():
        assert {"tenant", "id", "version", "body", *kind.columns} <= known.get(kind.table, set()), kind


async def test_every_kind_that_is_looked_up_has_one_row_a_key(empty_place: Place) -> None:
    await opened(empty_place)
    unique = await unique_keys(empty_place)
    for kind in kinds().values():
        if kind.table not in APPEND_ONLY:
            assert ("tenant", "id") in unique.get(kind.table, set()), kind


async def test_every_named_query_fits_the_schema(empty_place: Place) -> None:
    await opened(empty_place)
    for name in (*all_names(), "store.prune_batches", "store.prune_answers"):
        await _prepare(empty_place, name)


@pytest.mark.parametrize("pick", picks(), ids=lambda pick: pick.__name__)
async def test_every_pick_gives_its_query_what_it_asks_for(empty_place: Place, pick: type[Pick[Any]]) -> None:
    await opened(empty_place)
    hints = get_type_hints(pick)
    fields = {name: _sample(hints[name]) for name in pick.__struct_fields__ if name not in ("limit", "own")}
    made = pick(limit=1, **fields)
    given = {*made.params(datetime.now(UTC)), "limit"}
    assert given == set(named_sql(made.query).parameters)
    await _prepare(empty_place, made.query, " FOR UPDATE SKIP LOCKED" if made.own else "")


async def _prepare(place: Place, name: str, suffix: str = "") -> None:
    block = named_sql(name)
    if isinstance(place, SqlitePlace):
        connection = apsw.Connection(str(place.path))
        connection.execute(f"EXPLAIN {block.sqlite}", block.arguments(dict.fromkeys(block.parameters)))
        connection.close()
    else:
        assert isinstance(place, PostgresPlace)
        connection = await place.connect()
        await connection.prepare(block.postgres + suffix)
        await connection.close()


def _sample(hint: Any) -> Any:
    """Some value of a type; the query is prepared, not run."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_sample(argument) for argument in arguments if argument is not Ellipsis)
    if origin is not None:
        return _sample(arguments[0])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {bool: False, int: 1, str: "x", datetime: datetime.now(UTC)}[hint]
