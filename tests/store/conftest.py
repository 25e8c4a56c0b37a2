"""Places where one kind of store keeps its records, for what that kind alone does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.harness.postgres import PostgresServer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import PostgresPlace, SqlitePlace


@pytest.fixture
async def postgres_place(postgres_url: str) -> AsyncIterator[PostgresPlace]:
    found = PostgresPlace(postgres_url)
    yield found
    await found.close()


@pytest.fixture
async def sqlite_place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    found = SqlitePlace(tmp_path / "interlock.db")
    yield found
    await found.close()


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[PostgresProxy]:
    """A proxy before an empty database of the shared PostgreSQL."""
    started = PostgresProxy(postgres_url)
    started.start()
    yield started
    started.close()


@pytest.fixture
async def private_place(private_postgres: PostgresServer) -> AsyncIterator[PostgresPlace]:
    """A database on a PostgreSQL that may be paused and killed."""
    found = PostgresPlace(private_postgres.create_database())
    yield found
    await found.close()
