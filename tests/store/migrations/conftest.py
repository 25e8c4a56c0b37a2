"""Stores at any schema: a database that an older or a newer Interlock has opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interlock.store import catalogue as module
from interlock.store.catalogue import Migration
from interlock.store.postgres import store
from tests.harness.store_places import Place, PostgresPlace, SqlitePlace

Knows = Callable[[Callable[[tuple[Migration, ...]], tuple[Migration, ...]]], None]


@pytest.fixture(params=["sqlite", "postgres"])
async def empty_place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """An empty database of each dialect."""
    if request.param == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        found: Place = SqlitePlace(folder / "interlock.db")
    else:
        found = PostgresPlace(request.getfixturevalue("postgres_url"))
    yield found
    await found.close()


@pytest.fixture
def program_knows(monkeypatch: pytest.MonkeyPatch) -> Knows:
    """Make this program one that knows other migrations: `program_knows(lambda all_of_them: …)`."""
    every, notice = module.migrations, store.notice_another_origin

    async def know_no_origin(_session: object) -> None:
        """As every program did before a store had a state."""

    def know(choose: Callable[[tuple[Migration, ...]], tuple[Migration, ...]]) -> None:
        has_state = any(known.name == "store_state" for known in choose(every("postgres")))
        monkeypatch.setattr(module, "migrations", lambda dialect: choose(every(dialect)))
        monkeypatch.setattr(store, "notice_another_origin", notice if has_state else know_no_origin)

    return know
