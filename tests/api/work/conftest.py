"""The stages these tests play on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.store.urls import store_for
from tests.api.rooms.stage import open_stage
from tests.harness.postgres import PostgresServer
from tests.rules.jobs_work.shift import Shift


@pytest.fixture
async def shift() -> AsyncIterator[Shift]:
    """A service on an empty memory store with a virtual clock, and people and workers on it."""
    async with open_stage() as stage:
        yield await Shift(stage).open()


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that survives its server, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'interlock.db'}"
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.create_database()
    yield url
    postgres.drop(url)


@pytest.fixture
async def durable(durable_url: str) -> AsyncIterator[Shift]:
    """The same on an empty durable store, of either kind, with that store's own clock."""
    async with open_stage(store_for(durable_url), retry_base_seconds=0.01) as stage:
        yield await Shift(stage).open()
