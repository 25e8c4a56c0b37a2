"""A SQLite file that is removed or replaced under whoever uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.store import sqlite_blocking
from interlock.store.asking import Asking
from interlock.store.beside import Beside
from interlock.store.sqlite import store as sqlite
from interlock.store.sqlite.driver import Database, connect_durably
from interlock.store.turns import Turns
from tests.conformance.places import SqlitePlace, serving
from tests.kernel.counters import Raise

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


@pytest.mark.parametrize("has_loop", [True, False])
async def test_nor_in_one_that_was_replaced_as_it_was_opened(
    sqlite_place: SqlitePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_loop: bool
) -> None:
    async with serving(sqlite_place.store(), SHORT) as server:
        await server.kernel.run(Raise(name="a"))
    copy = tmp_path / "copy.db"
    copy.write_bytes(sqlite_place.path.read_bytes())
    module = sqlite if has_loop else sqlite_blocking

    def then_replaced(path: Path, *seconds: float) -> Database:
        database = connect_durably(path, *seconds)
        if copy.exists():
            copy.replace(path)
        return database

    monkeypatch.setattr(module, "connect_durably", then_replaced)
    if has_loop:
        async with serving(sqlite_place.store(), SHORT) as server:
            with pytest.raises(StoreUnavailable):
                await server.kernel.run(Raise(name="a"))
    else:
        file = sqlite_blocking.BlockingSqlite(sqlite_place.path)
        with pytest.raises(StoreDown, match="removed or replaced"):
            file.committed("batch", 1.0)
        file.close()


def test_nobody_decides_in_one_file_what_was_asked_of_another_at_its_path(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    path.touch()
    copy.touch()
    mine = Beside(path)
    copy.replace(path)
    yours = Beside(path)
    asks, holder = Asking(mine, Turns(mine)), Asking(yours, Turns(yours))
    assert asks.ask(b"something")
    assert yours.open(make=False)
    assert holder.requests() == []
    assert asks.withdraw()
    mine.close()
    yours.close()
