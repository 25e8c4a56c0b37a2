"""A store that somebody else holds: people are told when to come back, and programs all that a server tells."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import POLICY, Terminal
from tests.harness.server import InterlockServer

HOLD = """\
import apsw, sys
held = apsw.Connection(sys.argv[1])
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
AGAIN = re.compile(r"; try again in [1-9][0-9]*s\n\Z")
MEMBERS = {"type", "title", "status", "detail", "code", "retryable", "retry_after_ms"}


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Holds a SQLite file's writer lock from another process, until the test ends."""
    holders: list[subprocess.Popen[bytes]] = []

    def hold(path: str) -> None:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

    yield hold
    for holder in holders:
        holder.communicate()


def test_a_busy_store_ends_with_five(
    terminal: Terminal,
    serve: Callable[..., InterlockServer],
    holding: Callable[[str], None],
    sqlite_url: str,
) -> None:
    policy = terminal.folder / terminal.file("policy.yaml", POLICY)
    server = serve(sqlite_url, policy=policy, env={"INTERLOCK_ACQUIRE_SECONDS": "0.1"})
    key = server.create_key("payer", kind="agent", roles="submit").key
    holding(sqlite_url.removeprefix("sqlite:///"))
    asked = ("submit", "knowledge.read", "--url", server.url, "--api-key", key)
    said = terminal(*asked)
    assert (said.code, said.err.count("\n")) == (5, 1)
    assert "trying again" not in said.err
    assert AGAIN.search(said.err)
    assert terminal(*asked, "--json").problem.keys() >= MEMBERS


@pytest.mark.parametrize("words", [("exec", "mark"), ("exec", "--", "true"), ("grant", "mark")])
def test_a_file_that_another_process_holds_is_not_waited_for(
    terminal: Terminal, holding: Callable[[str], None], words: tuple[str, ...]
) -> None:
    terminal.file("interlock.yaml", "tasks: {mark: {command: 'true'}}\n")
    assert terminal("grant", "mark").code == 0
    holding(str(terminal.folder / ".interlock" / "interlock.db"))

    said = terminal(*words)

    assert (said.code, said.err.count("\n")) == (5, 1)
    assert "within 2 s" in said.err
    assert AGAIN.search(said.err)


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "knowledge.read"),
        ("key", "create", "payer", "--kind", "agent", "--roles", "submit"),
    ],
)
def test_a_file_that_another_process_holds_is_told_to_people_and_programs_with_when_to_come_back(
    policy_terminal: Terminal, holding: Callable[[str], None], words: tuple[str, ...]
) -> None:
    holding(str(policy_terminal.folder / ".interlock" / "interlock.db"))

    said, told = policy_terminal(*words), policy_terminal(*words, "--json")

    assert (said.code, told.code) == (5, 5)
    assert AGAIN.search(said.err)
    problem = told.problem
    assert problem.keys() >= MEMBERS
    assert (problem["code"], problem["status"], problem["retryable"]) == ("lock_busy", 409, True)
    assert problem["retry_after_ms"] > 0


def test_what_a_store_refuses_is_told_as_a_server_tells_it(policy_terminal: Terminal) -> None:
    problem = policy_terminal("key", "revoke", "0123456789abcdef", "--json").problem
    assert (problem["type"], problem["status"], problem["retryable"]) == ("/problems/not_found", 404, False)
    assert "retry_after_ms" not in problem


def test_a_problem_of_the_command_line_itself_says_whether_to_repeat_it(terminal: Terminal) -> None:
    usage = terminal("submit", "--json")
    away = terminal("jobs", "--url", "http://127.0.0.1:1", "--patience", "0s", "--json")
    assert [ended.problem["retryable"] for ended in (usage, away)] == [False, True]
