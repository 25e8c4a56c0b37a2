"""Restoring an older copy of the store takes decisions back, but no fence: what was handed out before stays stale."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.harness.load import post
from tests.harness.postgres import CUT_OFF, PostgresServer
from tests.harness.server import InterlockServer
from tests.harness.soak import dose
from tests.races.conftest import PATIENT
from tests.races.deployment import Deployment
from tests.races.leases.lease_contenders import taken_fences

FENCES_LOST = dose(20)


class Backup(Protocol):
    """A copy of the whole store, taken and put back while no server runs."""

    url: str

    def take(self) -> None: ...
    def restore(self) -> None: ...


class FileBackup:
    """A copy of the database file."""

    def __init__(self, folder: Path) -> None:
        self._store, self._copy = folder / "interlock.db", folder / "copy.db"
        self.url = f"sqlite:///{self._store}"

    def take(self) -> None:
        shutil.copy(self._store, self._copy)

    def restore(self) -> None:
        for file in self._store.parent.glob("interlock.db*"):
            file.unlink()
        shutil.copy(self._copy, self._store)


class DatabaseBackup:
    """A copy of the database inside the cluster, page by page."""

    def __init__(self, postgres: PostgresServer, url: str) -> None:
        self._postgres, self.url = postgres, url
        self._name = url.rpartition("/")[2]

    def take(self) -> None:
        self._copy(self._name, f"{self._name}_copy")

    def restore(self) -> None:
        self._postgres.execute(f'DROP DATABASE "{self._name}" WITH (FORCE)')
        self._copy(f"{self._name}_copy", self._name)

    def _copy(self, source: str, copy: str) -> None:
        self._postgres.execute(CUT_OFF.format(name=source))
        self._postgres.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{source}"')


@pytest.fixture(params=["sqlite", "postgres"])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Backup:
    if request.param == "sqlite":
        return FileBackup(tmp_path)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return DatabaseBackup(postgres, request.getfixturevalue("postgres_url"))


async def test_fences_grow_over_a_restore_and_what_was_held_before_it_is_stale(
    backup: Backup, serve: Callable[..., InterlockServer]
) -> None:
    count = 1 if backup.url.startswith("sqlite") else 2
    servers = [serve(backup.url, env=PATIENT) for _ in range(count)]
    place = Deployment(backup.url, servers)
    before = await taken_fences(place, 3)
    for server in servers:
        server.terminate()
    backup.take()
    for server in servers:
        server.start()
    lost = await taken_fences(place, FENCES_LOST)
    headers = place.keys["bot"].headers
    (held,) = await place.ask(post("/api/v1/leases", {"resource": "r/a"}, headers=headers))
    for server in servers:
        server.kill()
    backup.restore()
    for server in servers:
        server.start()
    after = await taken_fences(place, 3)
    assert max(before) < min(lost)
    assert max(*lost, held.json()["fence"]) < min(after)
    # The lease of before the restore is gone with everything else that came after the copy.
    path, body = f"/api/v1/leases/{held.json()['lease_id']}/renew", {"fence": held.json()["fence"]}
    (late,) = await place.ask(post(path, body, headers=headers))
    assert (late.status, late.word) == (404, "not_found")
