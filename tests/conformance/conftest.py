"""The places where stores keep records, so that one suite can run on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.kernel.storage import Store
from tests.conformance.places import MemoryPlace, Place, PostgresPlace, SqlitePlace
from tests.harness.postgres import PostgresServer
from tests.harness.proxy import PostgresProxy


def _place(kind: str, request: pytest.FixtureRequest) -> Place:
    if kind == "memory":
        return MemoryPlace()
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return SqlitePlace(folder / "interlock.db")
    return PostgresPlace(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each store in turn."""
    found = _place(request.param, request)
    yield found
    await found.close()


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    """Each store in turn, open."""
    opened = place.store()
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def shared_place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each store that several processes can share."""
    found = _place(request.param, request)
    yield found
    await found.close()


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
