"""What a command is, for `interlock exec`: all that decides what would run is hashed, and looked at again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.task_folder import granted, marks
from tests.cli.terminal import Terminal
from tests.harness.server import clean_env

EXEC = [sys.executable, "-m", "interlock.cli.main", "exec"]
ASK = """\
version: v1
rules:
  - {id: ask, when: {topic: "exec.*"}, decision: require_human, approval: {self_approval: true}}
"""


def tool(path: Path, says: str) -> None:
    """A program that leaves a mark."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says} >> marks\n")
    path.chmod(0o755)


def shown(task_terminal: Terminal, *words: str, **how: Any) -> Any:
    """What would run, with its hash."""
    said = task_terminal.process("exec", "--show", *words, **how)
    assert said.code == 0, said.err
    return said.json


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("argv", ("--", "echo", "a"), ("--", "echo", "b")),
        ("timeout_seconds", ("--timeout", "5s", "--", "true"), ("--timeout", "6s", "--", "true")),
        ("task", ("one", "--", "true"), ("other", "--", "true")),
    ],
)
def test_words_that_differ_have_another_hash(
    task_terminal: Terminal, field: str, one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    first, second = shown(task_terminal, *one), shown(task_terminal, *other)
    assert first[field] != second[field]
    assert first["command_hash"] != second["command_hash"]


def test_what_comes_through_stdin_is_in_the_hash(task_terminal: Terminal) -> None:
    hashes = {shown(task_terminal, "cat", stdin=text)["command_hash"] for text in ("", "pay 1", "pay 1000")}
    assert len(hashes) == 3


def test_the_folder_is_in_the_hash(task_terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    here = task_terminal("exec", "--show", "--", "true").json
    monkeypatch.chdir(task_terminal.folder / "sub")
    there = task_terminal("exec", "--show", "--", "true").json
    assert {**here, "cwd": "", "command_hash": ""} == {**there, "cwd": "", "command_hash": ""}
    assert here["command_hash"] != there["command_hash"]


def test_a_program_that_came_to_stand_before_the_approved_one_is_a_drift(task_terminal: Terminal) -> None:
    task_terminal("policy", "apply", task_terminal.file("policy.yaml", ASK))
    first, second = task_terminal.folder / "first", task_terminal.folder / "second"
    tool(second / "tool", "approved")
    path = {"PATH": f"{first}:{second}:/usr/bin:/bin"}
    before = shown(task_terminal, "--", "tool", env=path)
    asked = task_terminal.process("exec", "--json", "--", "tool", env=path)
    job = str(asked.problem["job_id"])
    assert task_terminal("approve", job).code == 0
    tool(first / "tool", "other")

    said = task_terminal.process("exec", "--resume", job, env=path)

    assert said.code == 3
    assert f'  program\n  - approved  "{second}/tool"\n  + would run "{first}/tool"\n' in said.err
    assert shown(task_terminal, "--", "tool", env=path)["command_hash"] != before["command_hash"]
    assert marks(task_terminal) == []


def test_what_changed_while_people_looked_does_not_run(task_terminal: Terminal) -> None:
    task_terminal("policy", "apply", task_terminal.file("policy.yaml", ASK))
    process = subprocess.Popen(
        [*EXEC, "--wait", "2m", "mark"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    job = ""
    while not job.startswith("job_"):
        job = process.stderr.readline().partition(" ")[0]
    path = task_terminal.folder / "interlock.yaml"
    path.write_text(path.read_text().replace("echo ran >> marks", "echo other >> marks"))

    assert task_terminal("approve", job).code == 0
    complaint = process.communicate(timeout=120)[1]

    assert (process.returncode, "  + would run" in complaint) == (3, True), complaint
    assert marks(task_terminal) == []


@pytest.mark.parametrize(("field", "value"), [("command_hash", "sha256:0"), ("user", "root")])
def test_what_was_approved_and_would_not_run_so_is_a_drift(
    task_terminal: Terminal, field: str, value: str
) -> None:
    task_terminal("policy", "apply", task_terminal.file("policy.yaml", ASK))
    document = task_terminal("exec", "--show", "mark").json
    task_terminal.file("payload.json", json.dumps({**document, field: value}))
    job = task_terminal("submit", "exec.mark", "--payload", "@payload.json", "--json").json["id"]
    assert task_terminal("approve", job).code == 0

    said = task_terminal.process("exec", "--resume", job)

    assert (said.code, f'  {field}\n  - approved  "{value}"\n' in said.err) == (3, True), said.err
    assert marks(task_terminal) == []


def test_a_program_of_the_tasks_folder_is_found_there(task_terminal: Terminal) -> None:
    tool(task_terminal.folder / "sub" / "tool.sh", "there")
    task_terminal.file("interlock.yaml", "tasks: {tool: {command: ./tool.sh, cwd: sub}}")
    granted(task_terminal, "tool")

    assert task_terminal.process("exec", "tool").code == 0
    assert (task_terminal.folder / "sub" / "marks").read_text() == "there\n"


def test_the_nearest_task_file_is_the_one_that_counts(
    task_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_terminal.file("sub/interlock.yaml", "tasks: {mark: {command: [echo, near]}}")
    monkeypatch.chdir(task_terminal.folder / "sub")
    assert task_terminal("exec", "--show", "mark").json["argv"] == ["echo", "near"]


def test_a_command_that_no_task_declares_gets_only_the_variables_that_were_listed(
    task_terminal: Terminal,
) -> None:
    granted(task_terminal, "say")
    said = task_terminal.process(
        "exec", "--env", "SHOWN", "say", "--", "env", env={"SHOWN": "yes", "SECRET": "no"}
    )
    names = {line.partition("=")[0] for line in said.out.splitlines()}
    assert "SHOWN" in names
    assert "SECRET" not in names


def test_a_folder_whose_name_is_not_text_is_a_usage_error(task_terminal: Terminal) -> None:
    folder = bytes(task_terminal.folder) + b"/\xff"
    Path(folder.decode(errors="surrogateescape")).mkdir()
    said = subprocess.run(
        [*EXEC, "--", "true"], cwd=folder, env=clean_env(), capture_output=True, timeout=120
    )
    assert (said.returncode, b"not text in UTF-8" in said.stderr) == (2, True), said.stderr


def test_more_stdin_than_may_be_is_a_usage_error(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat")
    said = task_terminal.process("exec", "cat", stdin="x" * (16 * 1024 * 1024 + 1))
    assert (said.code, said.out, "stdin is larger than" in said.err) == (2, "", True)


def test_a_pipe_is_waited_for_if_that_is_asked_for(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat")
    process = subprocess.Popen(
        [*EXEC, "--stdin", "cat"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    assert process.communicate("late\n", timeout=120)[0] == "late\n"


def test_a_fitting_grant_is_found_behind_many_that_do_not_fit(task_terminal: Terminal) -> None:
    for number in range(9):
        granted(task_terminal, "mark", "--pin", f'args.0="{number}"')
    wanted = granted(task_terminal, "mark", "--pin", 'args.0="42"')
    assert task_terminal.process("exec", "mark", "42").code == 42
    assert task_terminal("grant", wanted["id"], "--json").json["state"] == "spent"


def test_whose_key_is_shown_is_who_claims(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")
    key = task_terminal.key("bot", "--kind", "agent", "--roles", "submit")
    assert task_terminal.process("exec", "mark", env={"INTERLOCK_KEY": key}).code == 0
    (use,) = task_terminal("grant", grant["id"], "--json").json["claims"]
    assert use["claimed_by"] == "bot"


def test_a_task_whose_folder_is_missing_consumes_nothing(task_terminal: Terminal) -> None:
    task_terminal.file("interlock.yaml", "tasks: {a: {command: 'true', cwd: nowhere}}")
    grant = granted(task_terminal, "a")
    said = task_terminal("exec", "a")
    assert (said.code, "does not exist" in said.err) == (2, True), said.err
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 0


def test_a_program_has_a_topic_that_a_policy_can_name(task_terminal: Terminal) -> None:
    tool(task_terminal.folder / "c++ é.sh", "ran")
    said = task_terminal("exec", "--", "./c++ é.sh")
    assert (said.code, "so exec.c____.sh is denied" in said.err) == (3, True), said.err
    assert marks(task_terminal) == []


def test_a_value_may_be_written_with_its_option(task_terminal: Terminal) -> None:
    assert task_terminal("exec", "--show", "--wait=10m", "mark", "--grant=gnt_1", "7").json["args"] == ["7"]


def test_words_between_a_task_that_no_file_declares_and_its_command_are_a_usage_error(
    task_terminal: Terminal,
) -> None:
    granted(task_terminal, "cleanup")
    assert task_terminal("exec", "cleanup", "more", "--", "touch", "marks").code == 2
    assert not (task_terminal.folder / "marks").exists()
