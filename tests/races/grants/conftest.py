"""Stores and servers that claimants meet on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.service.local_kernel import LocalKernel
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, create_key
from tests.races.grants.claimant_processes import ClaimantProcesses
from tests.races.grants.claimant_program import CLIENT

# Nobody is to run out of patience because the machine is busy: these tests are about who wins.
PATIENT = {"INTERLOCK_ACQUIRE_SECONDS": "60"}


@dataclass(frozen=True, slots=True)
class Meeting:
    """Eight claimants, and a person who issues grants."""

    claimants: ClaimantProcesses
    person: Interlock
    store: str


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An empty store of each kind."""
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return postgres.create_database()
    return f"sqlite:///{Path(tmp_path_factory.mktemp('grants')) / 'interlock.db'}"


@pytest.fixture(scope="module", params=["embedded", "client", "two-servers"])
def meeting(request: pytest.FixtureRequest, store_url: str) -> Iterator[Meeting]:
    """Eight processes on the store itself, as `exec` claims and as `il.claim_grant` does, or on two servers of it."""
    servers: list[InterlockServer] = []
    claimants = None
    try:
        if request.param != "two-servers":
            LocalKernel(store_url).close()  # makes the store
            person = Interlock(store=store_url)
            claimants = ClaimantProcesses(
                [(f"{CLIENT}{store_url}" if request.param == "client" else store_url, None)]
            )
        else:
            servers = [InterlockServer(store_url, env=PATIENT).start() for _ in range(2)]
            ada = create_key(store_url, "ada", kind="person", roles="review")
            bot = create_key(store_url, "bot", kind="agent", roles="submit")
            person = Interlock(servers[0].url, ada.key)
            claimants = ClaimantProcesses([(server.url, bot.key) for server in servers])
        yield Meeting(claimants, person, store_url)
        person.close()
    finally:
        if claimants:
            claimants.close()
        for server in servers:
            server.close()
