"""The same people and agents on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.store.urls import store_for
from tests.harness.in_process_api import open_api
from tests.harness.postgres import PostgresServer
from tests.rooms.effects.effect_client import Actors


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Actors]:
    """Actors on an empty store of each kind, by that store's own clock."""
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.create_database()
    else:
        url = f"sqlite:///{tmp_path / 'interlock.db'}" if request.param == "sqlite" else "memory:"
    async with open_api(store_for(url)) as api:
        yield await Actors(api).open()
    if request.param == "postgres":
        postgres.drop(url)
