"""`interlock exec --json`: what we say is JSON and nothing else, and the same embedded as through a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.aged_store import age
from tests.cli.task_folder import call, granted, marks
from tests.cli.terminal import Terminal
from tests.harness.server import InterlockServer

POLICY = """\
version: v1
rules:
  - {id: ask, when: {topic: exec.true}, decision: require_human, approval: {self_approval: true}}
  - {id: no-rm, when: {topic: exec.rm}, decision: deny, reason: too dangerous}
"""
EVERY_PROBLEM = {"type", "title", "status", "detail", "code", "retryable"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InterlockServer]:
    running = InterlockServer(f"sqlite:///{tmp_path}/server.db").start()
    yield running
    running.close()


@pytest.mark.parametrize("policy", [POLICY, None])
@pytest.mark.parametrize("command", ["rm", "ls"])
def test_a_denial_is_the_same_document_embedded_and_through_a_server(
    terminal: Terminal, server: InterlockServer, policy: str | None, command: str
) -> None:
    ada = server.create_key("ada", roles="admin,submit").key
    at = ("--url", server.url, "--api-key", ada)
    if policy:
        for where in ((), at):
            assert terminal("policy", "apply", terminal.file("policy.yaml", policy), *where).code == 0

    here, there = (terminal("exec", "--json", *where, "--", command, "x") for where in ((), at))

    assert (here.code, there.code) == (3, 3)
    assert list(here.problem) == list(there.problem)
    differs = ("job_id", "job_hash")
    assert _without(here.problem, *differs) == _without(there.problem, *differs)


def test_an_approval_that_nobody_gave_in_time_is_told_as_expired(task_terminal: Terminal) -> None:
    assert task_terminal("policy", "apply", task_terminal.file("policy.yaml", POLICY)).code == 0
    job = str(task_terminal("exec", "--json", "--", "true").problem["job_id"])
    age(task_terminal.folder, "jobs", days=2)

    said = task_terminal("exec", "--resume", job, "--json")

    assert (said.code, said.problem["code"], said.problem["state"]) == (3, "approval_expired", "EXPIRED")
    assert said.problem.keys() >= EVERY_PROBLEM


def test_a_cancelled_job_and_a_rejected_one_are_told_in_full(task_terminal: Terminal) -> None:
    assert task_terminal("policy", "apply", task_terminal.file("policy.yaml", POLICY)).code == 0
    cancelled, rejected = (
        str(task_terminal("exec", "--json", "--", "true").problem["job_id"]) for _ in range(2)
    )
    task_terminal("cancel", cancelled)
    task_terminal("reject", rejected, "--reason", "no")

    for job, code in ((cancelled, "not_actionable"), (rejected, "rejected")):
        said = task_terminal("exec", "--resume", job, "--json")
        assert (said.code, said.problem["code"]) == (3, code)
        assert said.problem.keys() >= EVERY_PROBLEM
        assert said.problem["title"]


def test_an_execution_that_is_under_way_is_told_as_a_server_tells_it(task_terminal: Terminal) -> None:
    begun = {"request_hash": "sha256:0", "ttl_seconds": 600}
    call(task_terminal, "POST", "effects/exec:exec_x/begin", begun)

    said = task_terminal("exec", "--resume", "exec_x", "--json")

    assert (said.code, said.problem["code"], said.problem["retryable"]) == (5, "effect_in_progress", True)
    assert said.problem.keys() >= EVERY_PROBLEM


def test_who_waits_with_json_is_told_nothing_else(task_terminal: Terminal) -> None:
    assert task_terminal("policy", "apply", task_terminal.file("policy.yaml", POLICY)).code == 0
    said = task_terminal.process("exec", "--wait", "1s", "--json", "--", "true")
    assert (said.code, said.problem["code"], said.out) == (4, "still_pending", "")


@pytest.mark.parametrize("code", [0, 3])
def test_what_ran_before_is_told_as_json(task_terminal: Terminal, code: int) -> None:
    grant = granted(task_terminal, "mark")
    assert task_terminal.process("exec", "mark", str(code)).code == code
    execution = task_terminal("grant", grant["id"], "--json").json["claims"][0]["execution_id"]

    said = task_terminal.process("exec", "--resume", execution, "--json")

    assert (said.code, said.out) == (code, "")
    told = said.problem
    assert (told["execution_id"], told["exit_code"], told["replayed"]) == (execution, code, True)
    assert "did not run again" in told["remarks"][0]
    assert marks(task_terminal) == ["ran"]


def test_a_store_that_cannot_be_opened_is_told_as_a_server_tells_it(task_terminal: Terminal) -> None:
    task_terminal("init", "--bare")
    with (task_terminal.folder / ".interlock" / "interlock.db").open("r+b") as file:
        file.seek(100)  # where the header ends and what the file holds begins
        file.write(b"\xff" * 200)

    said = task_terminal("exec", "mark", "--json", "--patience", "0s")

    assert (said.code, said.problem["code"], said.problem["retryable"]) == (6, "store_unavailable", True)
    assert said.problem.keys() >= EVERY_PROBLEM


def _without(document: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}
