"""A disk that is full, and one that is read-only: told once, a refusal that names it, and found by the doctor."""

from __future__ import annotations

from collections.abc import Generator

import apsw
import pytest

from tests.cli.terminal import Terminal
from tests.harness.full_disk import Disk, small_disk

FULL = "the disk is full: there is no room to write to"


@pytest.fixture
def disk(terminal: Terminal) -> Generator[Disk]:
    with small_disk() as disk:
        yield disk


def test_a_full_disk_is_told_once_and_ends_in_a_refusal_that_names_it(
    disk: Disk, policy_terminal: Terminal
) -> None:
    disk.is_full = True
    path = policy_terminal.folder / ".interlock" / "interlock.db"
    refused = policy_terminal("submit", "knowledge.read", "--patience", "0s")
    patient = policy_terminal("submit", "knowledge.read", "--patience", "8s")
    disk.is_full = False
    assert (refused.code, patient.code) == (6, 6)
    assert len(refused.err.splitlines()) == 1
    assert f"{FULL} {path}; free some space there" in refused.err
    *told, ended = patient.err.splitlines()
    assert [FULL in line and "trying again" in line for line in told] == [True]
    assert FULL in ended
    assert policy_terminal("submit", "knowledge.read").code == 0
    assert len(policy_terminal("jobs", "--json").json["items"]) == 1


def test_reading_goes_on_while_the_disk_is_full(disk: Disk, policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read")
    disk.is_full = True
    assert policy_terminal("job", job["id"]).code == 0


def test_exec_names_a_full_disk_and_runs_nothing(disk: Disk, task_terminal: Terminal) -> None:
    assert task_terminal("grant", "mark").code == 0
    disk.is_full = True
    said = task_terminal("exec", "mark", "--patience", "0s")
    assert said.code == 6
    assert (FULL in said.err, len(said.err.splitlines())) == (True, 1)
    assert not (task_terminal.folder / "marks").exists()


def test_the_doctor_finds_a_full_disk_and_examines_the_rest(disk: Disk, policy_terminal: Terminal) -> None:
    assert "takes writes" in policy_terminal("doctor").out
    disk.is_full = True
    said = policy_terminal("doctor")
    assert said.code == 1
    assert "✗ store" in said.out
    assert FULL in said.out
    assert "✓ policy" in said.out
    assert said.err == ""


def test_a_store_that_is_made_on_a_full_disk_says_so(disk: Disk, terminal: Terminal) -> None:
    disk.is_full = True
    said = terminal("init", "--bare")
    assert (said.code, FULL in said.err, len(said.err.splitlines())) == (6, True, 1)


def test_a_read_only_file_is_named_and_found_by_the_doctor(
    policy_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = policy_terminal.submit("knowledge.read")

    def no_writes(database: apsw.Connection) -> None:
        database.execute("PRAGMA query_only = 1")

    monkeypatch.setattr(apsw, "connection_hooks", [no_writes])
    said = policy_terminal("submit", "knowledge.read", "--patience", "0s")
    assert said.code == 6
    assert "interlock.db is read-only for user" in said.err
    assert "give them the right to write" in said.err
    assert len(said.err.splitlines()) == 1
    assert policy_terminal("job", job["id"]).code == 0
    assert "is read-only for user" in policy_terminal("doctor").out
