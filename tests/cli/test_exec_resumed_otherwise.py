"""`interlock exec --resume` with other words than the execution had, or with an id that nothing has."""

from __future__ import annotations

import pytest

from tests.cli.task_folder import call, granted, marks
from tests.cli.terminal import Terminal


@pytest.fixture
def ended(task_terminal: Terminal) -> str:
    """An execution under a grant that ran to its end."""
    grant = granted(task_terminal, "mark")
    assert task_terminal.process("exec", "mark", "0").code == 0
    return str(task_terminal("grant", grant["id"], "--json").json["claims"][0]["execution_id"])


@pytest.fixture
def claimed(task_terminal: Terminal) -> str:
    """An execution that has claimed a grant and never started."""
    granted(task_terminal, "env")
    shown = task_terminal.process("exec", "--show", "env", env={"SHOWN": "yes"}).json
    assert call(
        task_terminal, "POST", "grants/claim", {"task": "env", "args": shown, "execution_id": "exec_lost"}
    )["claimed"]
    return "exec_lost"


@pytest.mark.parametrize(
    "words", [("mark", "1"), ("cat",), ("other", "--", "ls"), ("--", "rm", "-rf", "/x"), ("--", "sh", "0")]
)
def test_how_an_execution_ended_is_not_told_of_another_command(
    task_terminal: Terminal, ended: str, words: tuple[str, ...]
) -> None:
    other = task_terminal.process("exec", "--resume", ended, *words)

    assert (other.code, other.out) == (3, "")
    assert f"{ended} was for another command, so nothing ran" in other.err
    assert marks(task_terminal) == ["ran"]


def test_how_an_execution_ended_is_told_of_its_own_command_and_of_none(
    task_terminal: Terminal, ended: str
) -> None:
    for words in (("mark", "0"), ()):
        said = task_terminal.process("exec", "--resume", ended, *words)
        assert (said.code, "did not run again" in said.err) == (0, True), said.err


def test_another_command_is_told_by_both_hashes(task_terminal: Terminal, ended: str) -> None:
    said = task_terminal.process("exec", "--resume", ended, "--json", "mark", "1").problem
    assert (said["code"], said["execution_id"]) == ("drifted", ended)
    assert said["would_run"] == task_terminal("exec", "--show", "mark", "1").json["command_hash"]
    assert said["begun_for"] == task_terminal("exec", "--show", "mark", "0").json["command_hash"]


def test_a_claim_for_another_environment_is_told_as_what_it_is(task_terminal: Terminal, claimed: str) -> None:
    other = task_terminal.process("exec", "--resume", claimed, "env", env={"SHOWN": "no"})
    same = task_terminal.process("exec", "--resume", claimed, "env", env={"SHOWN": "yes"})

    assert other.code == 3
    assert f"{claimed} has claimed a grant for another command of env, so nothing ran" in other.err
    assert "the same folder and environment, or run it without --resume" in other.err
    assert same.code == 0, same.err


def test_a_claim_of_another_task_is_no_claim_of_this_one(task_terminal: Terminal, claimed: str) -> None:
    said = task_terminal.process("exec", "--resume", claimed, "mark")
    assert (said.code, "no grant for mark was claimed under it, so nothing ran" in said.err) == (3, True)
    assert marks(task_terminal) == []


@pytest.mark.parametrize("words", [(), ("--", "ls")])
def test_an_id_that_nothing_has_is_told_as_one(task_terminal: Terminal, words: tuple[str, ...]) -> None:
    task_terminal("init", "--bare")
    said = task_terminal("exec", "--resume", "nonsense", *words)
    problem = task_terminal("exec", "--resume", "nonsense", "--json", *words).problem

    assert (said.code, "there is no execution or job nonsense" in said.err) == (1, True)
    assert "never started" not in said.err
    assert (problem["code"], problem["execution_id"]) == ("not_found", "nonsense")


def test_the_id_of_a_grant_is_not_taken_for_an_execution(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")["id"]
    said = task_terminal("exec", "--resume", grant)
    assert (said.code, f"interlock exec --grant {grant} TASK" in said.err) == (1, True)
