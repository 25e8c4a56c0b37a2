"""A SQLite file that is removed or replaced under whoever uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.store.sqlite import store
from interlock.store.sqlite.driver import Database, connect_durably
from tests.harness.store_places import SqlitePlace, serving
from tests.kernel.counter_room import Raise

SHORT = KernelLimits(acquire_seconds=0.4)


@pytest.mark.parametrize("replaced", [True, False])
async def test_nothing_is_decided_in_a_file_that_nobody_will_find(
    sqlite_place: SqlitePlace, tmp_path: Path, replaced: bool
) -> None:
    aside = tmp_path / "aside.db"
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
        sqlite_place.path.rename(aside)
        if replaced:
            sqlite_place.path.write_bytes(aside.read_bytes())
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
        with pytest.raises(StoreDown, match="removed or replaced"):
            await server.store.ping(1.0)
        aside.replace(sqlite_place.path)
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=10)).count == 2


async def test_nor_in_one_that_was_replaced_as_it_was_opened(
    sqlite_place: SqlitePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
    copy = tmp_path / "copy.db"
    copy.write_bytes(sqlite_place.path.read_bytes())

    def then_replaced(path: Path, *seconds: float) -> Database:
        database = connect_durably(path, *seconds)
        if copy.exists():
            copy.replace(path)
        return database

    monkeypatch.setattr(store, "connect_durably", then_replaced)
    async with serving(sqlite_place.store(), SHORT) as server:
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
