"""A store that is put back to an older state hands out no fence that was handed out before."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from interlock.cli.main import main
from interlock.sdk.client import Interlock
from tests.harness.postgres import CUT_OFF, PostgresServer

# JSON numbers are whole and exact up to here.
EXACT_IN_JSON = 2**53 - 1
POLICY = "version: v1\nrules:\n  - {id: all, when: {topic: work}, decision: allow}\n"
Fences = dict[str, list[int]]


class Backup(Protocol):
    url: str

    def take(self) -> None: ...
    def restore(self) -> None: ...


class WholeFolder:
    """A copy of the file and of everything beside it, as a backup program makes it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._copy = folder / "store", folder / "copy"
        self._folder.mkdir()
        self.url = f"sqlite:///{self._folder / 'interlock.db'}"

    def take(self) -> None:
        shutil.copytree(self._folder, self._copy)

    def restore(self) -> None:
        time.sleep(0.2)  # A note is known for a copy by its time, which is not the time of its file.
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)


class FileAlone:
    """A copy of the database put in the file's place, whatever lies beside it."""

    def __init__(self, folder: Path) -> None:
        self._file, self._copy = folder / "interlock.db", folder / "copy.db"
        self.url = f"sqlite:///{self._file}"

    def take(self) -> None:
        shutil.copy(self._file, self._copy)

    def restore(self) -> None:
        for ending in ("-wal", "-shm"):
            Path(f"{self._file}{ending}").unlink(missing_ok=True)
        shutil.copy(self._copy, self._file)


class TemplateCopy:
    """A copy of the database inside its cluster."""

    def __init__(self, postgres: PostgresServer, url: str) -> None:
        self._postgres, self.url, self._name = postgres, url, url.rpartition("/")[2]

    def take(self) -> None:
        self._make(f"{self._name}_copy", self._name)

    def restore(self) -> None:
        self._make(self._name, f"{self._name}_copy")

    def _make(self, name: str, of: str) -> None:
        self._postgres.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._postgres.execute(CUT_OFF.format(name=of))
        self._postgres.execute(f'CREATE DATABASE "{name}" TEMPLATE "{of}"')


@pytest.fixture(params=["folder", "file", "postgres"])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Backup:
    if request.param == "folder":
        return WholeFolder(tmp_path)
    if request.param == "file":
        return FileAlone(tmp_path)
    return TemplateCopy(request.getfixturevalue("postgres"), request.getfixturevalue("postgres_url"))


class LeaseFences:
    """Hands out fences of every kind, again and again of the same things."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._number = 0
        with Interlock(store=url) as il:
            il.apply_policy(POLICY)
            self._job = il.call("POST", "jobs", body={"topic": "work", "payload": {}})["id"]
            issued = il.call("POST", "grants", body={"task": "t", "uses": 100, "expires_in": "1h"})
            self._grant = issued["grant_id"]

    def fences(self, count: int = 2) -> Fences:
        with Interlock(store=self._url) as il:
            found = [self._round(il) for _ in range(count)]
        return {kind: [each[kind] for each in found] for kind in found[0]}

    def _round(self, il: Interlock) -> dict[str, int]:
        def post(*path: str, **body: Any) -> Any:
            return il.call("POST", *path, body=body)

        self._number += 1
        job = post("jobs", self._job, "claim")
        post("jobs", self._job, "release", fence=job["fence"])
        lease = post("leases", resource="r/a")
        post("leases", lease["lease_id"], "release", fence=lease["fence"])
        run = post("workflows", "w", "runs")
        post("workflow-runs", run["run_id"], "complete", fence=run["fence"])
        effect = post("effects", "e1", "begin", request_hash="sha256:" + "0" * 64)
        post("effects", "e1", "fail", fence=effect["fence"], error="no", safe_to_retry=True)
        use = post("grants", "claim", task="t", execution_id=f"x{self._number}", grant_id=self._grant)
        found = {"job": job, "lease": lease, "run": run, "effect": effect, "grant use": use}
        return {kind: each["fence"] for kind, each in found.items()}


def epoch_of(url: str) -> int:
    with Interlock(store=url) as il:
        return il.get_health().fence_epoch


def test_a_store_that_was_never_restored_counts_from_one(backup: Backup) -> None:
    fences = LeaseFences(backup.url).fences(3)
    assert all(found == [1, 2, 3] for kind, found in fences.items() if kind != "lease")
    assert epoch_of(backup.url) == 0


def test_the_command_makes_fences_of_every_kind_greater_than_all_before(backup: Backup) -> None:
    leases = LeaseFences(backup.url)
    before = leases.fences()
    for epoch in (1, 2):
        assert main(["doctor", "--after-restore", "--store", backup.url]) == 0
        after = leases.fences()
        assert_beyond(after, before)
        assert epoch_of(backup.url) == epoch
        before = after


def test_a_restored_copy_is_noticed_and_no_fence_repeats(backup: Backup) -> None:
    leases = LeaseFences(backup.url)
    leases.fences()
    backup.take()
    lost = leases.fences(4)
    backup.restore()
    after = leases.fences()
    assert_beyond(after, lost)
    assert epoch_of(backup.url) == 1
    assert_beyond(leases.fences(), after)
    assert epoch_of(backup.url) == 1


def test_a_second_restore_of_the_same_copy_does_not_repeat_the_fences_of_the_first(backup: Backup) -> None:
    leases = LeaseFences(backup.url)
    leases.fences()
    backup.take()
    backup.restore()
    lost = leases.fences(4)
    backup.restore()
    assert_beyond(leases.fences(), lost)


def test_a_raise_is_audited(backup: Backup) -> None:
    LeaseFences(backup.url).fences(1)
    assert main(["doctor", "--after-restore", "--store", backup.url]) == 0
    with Interlock(store=backup.url) as il:
        entries = il.call("GET", "audit", query={"subject": "store"})["items"]
    assert [(entry["action"], entry["details"]["epoch"]) for entry in entries] == [("fences_raise", 1)]
    assert entries[0]["actor"].startswith("local:")


def assert_beyond(after: Fences, before: Fences) -> None:
    for kind, found in after.items():
        assert min(found) > max(before[kind]), kind
        assert found == sorted(set(found)), kind
        assert max(found) <= EXACT_IN_JSON
