"""`interlock exec --resume`: an execution goes on as its record says, never by guessing."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.task_folder import call, effect_of, granted, marks, start, wait_for
from tests.cli.terminal import Terminal
from tests.harness.server import InterlockServer, clean_env


def test_an_execution_killed_before_it_could_say_how_it_ended_is_never_run_again_by_guessing(
    task_terminal: Terminal,
) -> None:
    grant = granted(task_terminal, "slow", "--uses", "2")
    process = start(task_terminal, "slow")
    wait_for(task_terminal, "started")
    process.kill()
    process.wait(30)
    execution = task_terminal("grant", grant["id"], "--json").json["claims"][0]["execution_id"]

    said = task_terminal("exec", "--resume", execution, "slow")

    assert said.code == 5
    assert "running elsewhere" in said.err
    assert "counts as unknown from 20" in said.err
    assert marks(task_terminal).count("started") == 1


def test_a_claim_that_never_started_is_resumed_with_the_same_use(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")
    shown = task_terminal("exec", "--show", "mark").json
    claim = {"task": "mark", "args": shown, "execution_id": "exec_lost"}
    assert call(task_terminal, "POST", "grants/claim", claim)["claimed"]

    other = task_terminal("exec", "--resume", "exec_lost", "mark", "9")
    resumed = task_terminal.process("exec", "--resume", "exec_lost", "mark")
    again = task_terminal.process("exec", "--resume", "exec_lost", "mark")

    assert other.code == 3
    assert (resumed.code, resumed.out) == (0, "out\n")
    assert (again.code, again.out) == (0, "")
    assert "did not run again" in again.err
    assert marks(task_terminal) == ["ran"]
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 1


def test_an_id_that_nobody_claimed_under_is_resumed_by_no_open_grant(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")

    said = task_terminal("exec", "--resume", "exec_misspelled", "mark")

    assert (said.code, "no grant for mark was claimed" in said.err) == (3, True)
    assert "asking" not in said.err
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 0
    assert marks(task_terminal) == []


_KILLED_WHILE_BEGINNING = """
import os, signal
from interlock.cli.main import main
from interlock.rooms.jobs import effect_intent

effect_intent.record_effect = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["exec", "mark"])
"""


def test_an_execution_killed_while_it_claims_and_begins_leaves_the_grant_open(
    task_terminal: Terminal,
) -> None:
    grant = granted(task_terminal, "mark")
    words = [sys.executable, "-c", _KILLED_WHILE_BEGINNING]
    ended = subprocess.run(
        words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, timeout=120
    )
    assert ended.returncode == -signal.SIGKILL
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 0

    assert task_terminal.process("exec", "mark").code == 0
    (use,) = task_terminal("grant", grant["id"], "--json").json["claims"]
    assert use["action_id"] == f"exec:{use['execution_id']}"
    assert effect_of(task_terminal, use["execution_id"])["grant"]["id"] == grant["id"]
    assert marks(task_terminal) == ["ran"]


def test_an_execution_that_could_not_start_is_resumed_for_nothing_but_its_command(
    task_terminal: Terminal,
) -> None:
    grant = granted(task_terminal, "flaky")
    tool = task_terminal.folder / "flaky.sh"
    tool.write_text("#!/nowhere\n")
    tool.chmod(0o755)
    failed = task_terminal.process("exec", "flaky")
    assert (failed.code, "could not be started" in failed.err) == (1, True)
    (use,) = task_terminal("grant", grant["id"], "--json").json["claims"]
    tool.write_text("#!/bin/sh\necho ran >> marks\n")

    other = task_terminal.process("exec", "--resume", use["execution_id"], "flaky", "more")
    resumed = task_terminal.process("exec", "--resume", use["execution_id"], "flaky")

    assert (other.code, resumed.code) == (3, 0), resumed.err
    assert marks(task_terminal) == ["ran"]
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("flaky", "--", "--json", "--wait", "-x"),
        ("--tasks", "other.yaml", "elsewhere", "a b"),
        ("--env", "SHOWN", "--timeout", "5m", "named", "--", "./flaky.sh", "--", "--json"),
    ],
)
def test_what_is_said_to_type_again_is_the_same_command(
    task_terminal: Terminal, words: tuple[str, ...]
) -> None:
    task_terminal.file("other.yaml", "tasks: {elsewhere: {command: ./flaky.sh}}")
    tool = task_terminal.folder / "flaky.sh"
    tool.write_text("#!/nowhere\n")
    tool.chmod(0o755)
    for task in ("flaky", "elsewhere", "named"):
        granted(task_terminal, task)
    failed = task_terminal.process("exec", *words, env={"SHOWN": "yes"})
    assert (failed.code, "Once it can start: interlock exec" in failed.err) == (1, True), failed.err
    tool.write_text('#!/bin/sh\necho "$@" >> marks\n')

    again = shlex.split(failed.err.partition("Once it can start: ")[2])
    resumed = task_terminal.process(*again[1:], env={"SHOWN": "yes"})

    assert resumed.code == 0, resumed.err
    assert len(marks(task_terminal)) == 1


def test_a_command_that_ran_passes_its_exit_code_on_though_nobody_could_record_it(
    task_terminal: Terminal, tmp_path: Path
) -> None:
    server = InterlockServer(f"sqlite:///{tmp_path}/interlock.db").start()
    ada, bot = server.create_key("ada"), server.create_key("bot", kind="agent", roles="submit")
    at = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key, "SERVER": str(server.pid)}
    grant = granted(task_terminal, "fell", "--url", server.url, "--api-key", ada.key)
    fell = ("fell", "--", "sh", "-c", 'kill -9 "$SERVER"; exit 7')

    said = task_terminal.process("exec", "--patience", "1s", "--env", "SERVER", *fell, env=at)
    server.kill()
    server.start()
    again = shlex.split(said.err.partition("record it with `")[2].partition("`")[0])
    recorded = task_terminal.process(*again[1:], env=at)
    use = task_terminal.process("grant", grant["id"], "--json", env=at).json["claims"][0]
    resumed = task_terminal.process("exec", "--resume", use["execution_id"], env=at)
    server.close()

    assert (said.code, "could not be recorded" in said.err) == (7, True), said.err
    assert recorded.code == 0, recorded.err
    assert (resumed.code, "did not run again" in resumed.err) == (7, True)


def test_who_does_not_hear_whether_it_may_run_runs_nothing_and_is_told_how_to_go_on(
    task_terminal: Terminal, tmp_path: Path
) -> None:
    server = InterlockServer(f"sqlite:///{tmp_path}/interlock.db").start()
    ada, bot = server.create_key("ada"), server.create_key("bot", kind="agent", roles="submit")
    at = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key}
    granted(task_terminal, "mark", "--url", server.url, "--api-key", ada.key)

    server.pause()
    said = task_terminal.process("exec", "--patience", "1s", "mark", "a b", env=at)
    server.resume()
    again = shlex.split(said.err.rpartition("with `")[2].partition("`")[0])
    resumed = task_terminal.process(*again[1:], env=at)
    server.close()

    assert (said.code, "nothing ran, but exec_" in said.err) == (6, True), said.err
    assert again[:3] == ["interlock", "exec", "--resume"]
    assert again[4:] == ["mark", "a b"]
    assert resumed.code in (3, 5), resumed.err  # never begun, or begun and not ended
    assert marks(task_terminal) == []


@pytest.fixture
def unknown(task_terminal: Terminal) -> str:
    """An execution that was begun and never said how it ended, past its time."""
    granted(task_terminal, "mark")
    shown = task_terminal("exec", "--show", "mark").json
    assert call(
        task_terminal, "POST", "grants/claim", {"task": "mark", "args": shown, "execution_id": "exec_x"}
    )["claimed"]
    begun = {"request_hash": shown["command_hash"], "ttl_seconds": 1}
    assert call(task_terminal, "POST", "effects/exec:exec_x/begin", begun)["state"] == "IN_PROGRESS"
    deadline = time.monotonic() + 60
    while effect_of(task_terminal, "exec_x")["state"] != "AMBIGUOUS":
        assert time.monotonic() < deadline, "the effect is not over"
        time.sleep(0.1)
    return "exec_x"


def test_an_execution_whose_outcome_is_unknown_is_not_run_and_says_what_to_record(
    task_terminal: Terminal, unknown: str
) -> None:
    for words in (("mark",), ()):
        said = task_terminal("exec", "--resume", unknown, *words)
        assert said.code == 6
        assert "is not known" in said.err
        assert f"exec:{unknown}" in said.err
    assert marks(task_terminal) == []
    assert effect_of(task_terminal, unknown)["state"] == "AMBIGUOUS"


def test_an_execution_that_surely_did_not_run_is_resumed_once_under_the_same_use(
    task_terminal: Terminal, unknown: str
) -> None:
    said = {"outcome": "not_committed", "evidence": {"seen": "no mark"}}
    call(task_terminal, "POST", f"effects/exec:{unknown}/resolve", said)

    resumed = task_terminal.process("exec", "--resume", unknown, "mark")
    again = task_terminal.process("exec", "--resume", unknown, "mark")

    assert (resumed.code, resumed.out) == (0, "out\n")
    assert (again.code, again.out) == (0, "")
    assert marks(task_terminal) == ["ran"]


def test_an_execution_that_surely_ran_is_not_run_again(task_terminal: Terminal, unknown: str) -> None:
    said = {"outcome": "committed", "result": {"exit_code": 9}, "evidence": {"seen": "a mark"}}
    call(task_terminal, "POST", f"effects/exec:{unknown}/resolve", said)

    resumed = task_terminal.process("exec", "--resume", unknown, "mark")

    assert (resumed.code, resumed.out) == (9, "")
    assert "did not run again" in resumed.err
    assert marks(task_terminal) == []


def test_how_a_command_ended_is_not_told_of_another_one(task_terminal: Terminal) -> None:
    ann = task_terminal.key("ann", "--kind", "person", "--roles", "review")
    job = str(task_terminal("exec", "mark", "0", "--json").problem["job_id"])
    task_terminal("approve", job, "--api-key", ann)
    assert task_terminal.process("exec", "--resume", job).code == 0

    same, other, undeclared = (
        task_terminal.process("exec", "--resume", job, *words)
        for words in (("mark", "0"), ("mark", "1"), ("--", "rm", "-r", "x"))
    )

    assert (same.code, other.code, undeclared.code) == (0, 3, 3)
    assert '+ would run ["rm","-r","x"]' in undeclared.err
