"""A SQLite store is its owner's alone, unless somebody shares it; what lies beside the file follows it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.store.sqlite import SqliteStore
from tests.harness.store_places import serving
from tests.kernel.counter_room import Raise


@pytest.fixture(autouse=True)
def _usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_store_is_nobody_elses_to_read(tmp_path: Path) -> None:
    file = tmp_path / ".interlock" / "interlock.db"
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
        beside = {path.name: mode(path) for path in file.parent.iterdir() if path.name != ".gitignore"}
    assert mode(file.parent) == 0o700
    assert set(beside) >= {"interlock.db", "interlock.db-wal"}
    assert set(beside.values()) == {0o600}
    assert (file.parent / ".gitignore").read_text() == "*\n"


async def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    before = mode(tmp_path)
    async with serving(SqliteStore(tmp_path / "a.db")) as server:
        await server.outcomes(Raise(name="a"))
    assert (mode(tmp_path), mode(tmp_path / "a.db")) == (before, 0o600)
    assert not (tmp_path / ".gitignore").exists()


async def test_a_store_that_was_shared_stays_shared(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
    file.chmod(0o660)
    async with serving(SqliteStore(file)) as server:
        await server.outcomes(Raise(name="a"))
        assert {mode(path) for path in tmp_path.iterdir()} == {0o660}
