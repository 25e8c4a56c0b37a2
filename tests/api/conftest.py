"""The APIs that these tests call: on memory, and on durable stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.store.urls import store_for
from tests.harness.in_process_api import InProcessApi, open_api
from tests.harness.postgres import PostgresServer


@pytest.fixture
async def api() -> AsyncIterator[InProcessApi]:
    """A service on an empty memory store with a virtual clock."""
    async with open_api() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that survives its server, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'interlock.db'}"
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.create_database()
        yield url
        postgres.drop(url)


@pytest.fixture
async def durable(durable_url: str) -> AsyncIterator[InProcessApi]:
    """A service on an empty durable store, of either kind, with that store's own clock."""
    async with open_api(store_for(durable_url)) as opened:
        yield opened
