"""One SQLite deployment with one server and one PostgreSQL deployment with two, for all races."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer
from tests.races.deployment import ASK, Deployment

# Nobody is to run out of patience because the machine is busy: these tests are about who wins.
PATIENT = {"INTERLOCK_ACQUIRE_SECONDS": "60"}


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def deployment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Servers that share one store, and keys for everybody."""
    folder = tmp_path_factory.mktemp("races")
    policy = Path(folder / "policy.yaml")
    policy.write_text(ASK)
    if request.param == "sqlite":
        store, count = f"sqlite:///{folder / 'interlock.db'}", 1
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store, count = postgres.create_database(), 2
    servers = [InterlockServer(store, policy=policy, env=PATIENT) for _ in range(count)]
    try:
        for server in servers:
            server.start()
        yield Deployment(store, servers)
    finally:
        for server in servers:
            server.close()
