"""The places where stores keep records, so that one suite can run on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.kernel.storage import Store
from tests.harness.store_places import MemoryPlace, Place, PostgresPlace, SqlitePlace


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
