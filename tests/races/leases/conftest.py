"""Two servers on one PostgreSQL, or one on SQLite, to be killed and stopped by the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.server import InterlockServer
from tests.races.conftest import PATIENT
from tests.races.deployment import Deployment


@pytest.fixture
def pair(postgres_url: str, serve: Callable[..., InterlockServer]) -> Deployment:
    """Two servers of the test's own on an empty database."""
    return Deployment(postgres_url, [serve(postgres_url, env=PATIENT) for _ in range(2)])


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, serve: Callable[..., InterlockServer]) -> Deployment:
    """One server on SQLite, or two on PostgreSQL."""
    store = request.getfixturevalue(f"{request.param}_url")
    count = 1 if request.param == "sqlite" else 2
    return Deployment(store, [serve(store, env=PATIENT) for _ in range(count)])
