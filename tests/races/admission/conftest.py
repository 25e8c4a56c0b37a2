"""Servers with the patience they have in production: contention alone must never look like an outage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer
from tests.races.admission.admission_servers import AdmissionServers


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def admission(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdmissionServers]:
    """One server on SQLite, two on PostgreSQL."""
    if request.param == "sqlite":
        store, count = f"sqlite:///{tmp_path_factory.mktemp('admission') / 'interlock.db'}", 1
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store, count = postgres.create_database(), 2
    servers = [InterlockServer(store) for _ in range(count)]
    try:
        for server in servers:
            server.start()
        yield AdmissionServers(store, servers)
    finally:
        for server in servers:
            server.close()
