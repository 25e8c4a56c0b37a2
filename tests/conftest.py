"""Fixtures every test may use, and one profile for property-based tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.postgres import PostgresServer
from tests.harness.soak import dose

settings.register_profile(
    "interlock",
    # The same examples on every machine: a red run can be repeated. A soak widens the search instead.
    derandomize=dose(1) == 1,
    max_examples=dose(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("interlock")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The run's shared PostgreSQL. A test that pauses, stops or kills one takes `private_postgres`."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the test's own, to be paused, killed and restarted."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on the shared PostgreSQL."""
    url = postgres.create_database()
    yield url
    postgres.drop(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'interlock.db'}"
