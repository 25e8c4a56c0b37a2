"""`interlock exec` under a grant: once, as approved, with its output and exit code passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.task_folder import TASKS, effect_of, granted, marks, start, wait_for
from tests.cli.terminal import Terminal
from tests.cli.test_dispatch import IMPORTED
from tests.harness.server import clean_env


def test_a_task_runs_once_under_a_grant_and_its_exit_code_is_passed_on(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")

    first = task_terminal.process("exec", "mark", "42")
    second = task_terminal("exec", "mark", "42")

    assert (first.code, first.out, first.err) == (42, "out\n", "err\n")
    assert second.code == 4
    assert "no open grant for mark" in second.err
    assert marks(task_terminal) == ["ran"]
    assert task_terminal("grant", grant["id"], "--json").json["state"] == "spent"


def test_what_ran_is_recorded_with_exit_code_duration_and_output(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")
    task_terminal.process("exec", "mark", "5")
    execution = task_terminal("grant", grant["id"], "--json").json["claims"][0]["execution_id"]

    effect = effect_of(task_terminal, execution)

    assert (effect["state"], effect["result"]["exit_code"]) == ("COMMITTED", 5)
    assert (effect["result"]["stdout_bytes"], effect["result"]["stderr_bytes"]) == (4, 4)
    assert effect["result"]["output_digest"].startswith("sha256:")
    assert effect["result"]["duration_ms"] >= 0


def test_twenty_at_once_on_one_grant_run_the_command_once(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")
    words = [sys.executable, "-m", "interlock.cli.main", "exec", "--grant", grant["id"], "mark"]
    started = [
        subprocess.Popen(
            words,
            cwd=task_terminal.folder,
            env=clean_env(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(20)
    ]
    ends = [(process.communicate(timeout=240)[1], process.returncode) for process in started]

    assert marks(task_terminal) == ["ran"]
    assert sorted(code for _, code in ends) == [0] + [3] * 19, ends


def test_pins_hold_the_arguments_and_the_whole_command(task_terminal: Terminal) -> None:
    shown = task_terminal("exec", "--show", "mark", "7").json
    granted(task_terminal, "mark", "--pin", 'args.0="7"', "--pin", f"command_hash={shown['command_hash']}")

    assert task_terminal("exec", "mark", "8").code == 4
    task_terminal.file("interlock.yaml", TASKS.replace("exit ${1:-0}", "exit ${1:-0} # changed"))
    assert task_terminal("exec", "mark", "7").code == 4
    task_terminal.file("interlock.yaml", TASKS)
    assert task_terminal.process("exec", "mark", "7").code == 7
    assert marks(task_terminal) == ["ran"]


def test_every_grant_that_was_looked_at_is_named_with_why_it_does_not_fit(task_terminal: Terminal) -> None:
    grants = [granted(task_terminal, "mark", "--pin", f'args.0="{code}"')["id"] for code in (7, 8)]
    said = task_terminal.process("exec", "--grant", grants[0], "mark")
    assert (said.code, "pin args.0" in said.err) == (3, True)
    asked = task_terminal.process("exec", "mark")
    assert all(f"{grant}: pin args.0" in asked.err for grant in grants)
    assert marks(task_terminal) == []


def test_stdin_is_bound_and_passed_on(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat", "--uses", "3")
    assert task_terminal.process("exec", "cat", stdin="hello\n").out == "hello\n"
    assert task_terminal.process("exec", "--show", "cat", stdin="hello\n").json["stdin"].startswith("sha256:")


def test_a_pipe_that_nobody_writes_to_keeps_nobody_waiting_and_is_said_to_be_unread(
    task_terminal: Terminal,
) -> None:
    granted(task_terminal, "cat")
    words = [sys.executable, "-m", "interlock.cli.main", "exec", "cat"]
    never, writer = os.pipe()
    ended = subprocess.run(
        words,
        cwd=task_terminal.folder,
        env=clean_env(),
        stdin=never,
        capture_output=True,
        text=True,
        timeout=120,
    )
    os.close(never)
    os.close(writer)
    assert (ended.returncode, "--stdin waits for it" in ended.stderr) == (0, True)


def test_a_granted_task_starts_without_what_it_does_not_need(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat")
    heavy = (
        "cel_expr_python,cryptography,httpx2,interlock.api.app,interlock.service.service,interlock.sdk.client,"
        "interlock.rooms.jobs.model,interlock.rooms.leases.rules"
    )
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, heavy, "exec", "cat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=task_terminal.folder,
        env=clean_env(),
        check=True,
    )
    assert ended.stderr == "[]\n"


def test_only_listed_variables_reach_the_command(task_terminal: Terminal) -> None:
    granted(task_terminal, "env", "--uses", "2")
    out = task_terminal.process("exec", "env", env={"SHOWN": "yes", "SECRET": "no"}).out.splitlines()
    assert "SHOWN=yes" in out
    assert not any(line.startswith(("SECRET", "INTERLOCK")) for line in out)


def test_a_variables_value_is_part_of_the_hash_and_is_not_shown(task_terminal: Terminal) -> None:
    one = task_terminal.process("exec", "--show", "env", env={"SHOWN": "hunter2"})
    two = task_terminal.process("exec", "--show", "env", env={"SHOWN": "hunter3"})
    assert one.json["command_hash"] != two.json["command_hash"]
    assert "hunter" not in one.out + two.out


def test_a_task_runs_in_its_folder_from_wherever_it_is_called(task_terminal: Terminal) -> None:
    granted(task_terminal, "where")
    ended = subprocess.run(
        [sys.executable, "-m", "interlock.cli.main", "exec", "where"],
        cwd=task_terminal.folder / "sub",
        env=clean_env({"INTERLOCK_STORE": f"sqlite:///{task_terminal.folder}/.interlock/interlock.db"}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.stdout.strip() == str((task_terminal.folder / "sub").resolve())


def test_a_signal_reaches_the_command_and_how_it_ends_is_how_we_end(task_terminal: Terminal) -> None:
    granted(task_terminal, "slow")
    process = start(task_terminal, "slow")
    wait_for(task_terminal, "started")

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 7
    assert marks(task_terminal) == ["started", "stopped"]


def test_a_command_out_of_time_is_ended_with_all_it_started(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "late")
    assert task_terminal.process("exec", "late").code == 124
    execution = task_terminal("grant", grant["id"], "--json").json["claims"][0]["execution_id"]
    assert effect_of(task_terminal, execution)["result"]["timed_out"] is True


def test_a_command_that_cannot_start_consumes_nothing(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "gone")
    for why in ("there is no program './gone.sh'", "'./gone.sh' is not executable"):
        said = task_terminal("exec", "gone")
        assert (said.code, why in said.err) == (2, True)
        task_terminal.file("gone.sh", "")
    assert task_terminal("grant", grant["id"], "--json").json["used"] == 0


def test_a_task_that_asks_for_a_signature_takes_no_other_grant(task_terminal: Terminal) -> None:
    granted(task_terminal, "signed")
    said = task_terminal("exec", "signed")
    assert said.code == 3
    assert "needs a signed grant" in said.err
    assert "--sign-with" in said.err


def test_a_named_grant_that_does_not_fit_is_the_end_of_it(task_terminal: Terminal) -> None:
    other = granted(task_terminal, "cat")
    granted(task_terminal, "mark")
    said = task_terminal("exec", "--grant", other["id"], "mark")
    assert said.code == 3
    assert "it is for cat" in said.err
    assert marks(task_terminal) == []


BAD = [
    ("exec",),
    ("exec", "unknown"),
    ("exec", "--tasks", "missing.yaml", "mark"),
    ("exec", "--tasks", ".", "mark"),
    ("exec", "--tasks", "/dev/zero", "mark"),
    ("exec", "--", "no-such-program-anywhere"),
    ("exec", "--wiat", "10m", "--", "true"),
    ("exec", "-x", "mark"),
    ("exec", "--timeout", "5s", "mark"),
    ("exec", "mark", "--env", "SHOWN"),
    ("exec", "--timeout", "0s", "--", "true"),
    ("exec", "--timeout", "2d", "--", "true"),
    ("exec", "--env", "NAME=value", "--", "true"),
    ("exec", "--grant", "gnt_1", "--", "true"),
    ("exec", "--grant", "", "mark"),
    ("exec", "--resume", "", "mark"),
    ("exec", "--resume", "", "--", "true"),
    ("exec", "--resume=", "--", "true"),
    ("exec", "--show", "--resume", "job_1"),
]


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_what_cannot_be_run_is_a_usage_error(task_terminal: Terminal, words: tuple[str, ...]) -> None:
    granted(task_terminal, "mark")
    assert task_terminal(*words).code == 2
    assert marks(task_terminal) == []


BAD_TASK_FILES = [
    ("tasks: {a: {command: []}}", "1:22: tasks.a.command"),
    ("tasks: {a: {command: 'make && rm -rf /'}}", "1:22: tasks.a.command"),
    ("tasks:\n  b: {command: x}\n  a: {command: [true]}", "3:17: tasks.a.command.0"),
    ("tasks: {a: {cwd: x}}", "1:12: tasks.a.command: is required"),
    ("tasks: {a: {command: x, shell: true}}", "1:25: tasks.a.shell: unknown field"),
    ("tasks: {a: {command: x, approval: {groups: [7]}}}", "1:45: tasks.a.approval.groups.0"),
    ("tasks: {a: {command: x, timeout: 2d}}", "1:34: tasks.a.timeout"),
    (
        "tasks: {a: {command: x, timeout: 90}}",
        "1:34: tasks.a.timeout: expected str, got int; write it like 10m",
    ),
    (
        "tasks: {a: {command: x, timeout: 1w}}",
        "1:34: tasks.a.timeout: is not a duration; write it like 30s",
    ),
    ("tasks: {a: {command: x, env: [A=1]}}", "1:31: tasks.a.env.0: is not a variable's name; write"),
    (
        'tasks: {a: {command: [x, "a\\0b"]}}',
        "1:22: tasks.a.command: task a: command has a word with a NUL",
    ),
    ('tasks: {a: {command: x, cwd: "a\\0b"}}', "1:30: tasks.a.cwd: task a: cwd has a character"),
    ("tasks: {a b: {command: x}}", "1:14: tasks.a b"),
    ("tasks: {a: {command: x}, a: {command: y}}", "1:26"),
    ("tasks: []", "1:8: tasks"),
    ("[]", "1:1"),
    ("tasks: [", "1:9"),
]


@pytest.mark.parametrize(("text", "place"), BAD_TASK_FILES)
def test_a_bad_task_file_says_where_and_what_is_wrong_with_it(
    task_terminal: Terminal, text: str, place: str
) -> None:
    task_terminal.file("interlock.yaml", text)
    said = task_terminal("exec", "a")
    assert said.code == 2
    assert f"interlock.yaml:{place}" in said.err


@pytest.mark.parametrize("folder", ["loop", "x" * 300, "interlock.yaml/x"])
def test_a_folder_that_cannot_be_reached_is_a_usage_error(task_terminal: Terminal, folder: str) -> None:
    (task_terminal.folder / "loop").symlink_to("loop")
    task_terminal.file("interlock.yaml", f"tasks: {{a: {{command: 'true', cwd: '{folder}'}}}}")
    granted(task_terminal, "a")
    said = task_terminal("exec", "a")
    assert (said.code, "task a: its folder" in said.err) == (2, True), said.err


def test_a_folder_that_was_removed_is_a_usage_error(task_terminal: Terminal) -> None:
    (task_terminal.folder / "gone").mkdir()
    words = f"cd gone && rmdir ../gone && {sys.executable} -m interlock.cli.main exec -- true"
    shell = ["sh", "-c", words]
    said = subprocess.run(
        shell, cwd=task_terminal.folder, env=clean_env(), capture_output=True, text=True, timeout=120
    )
    assert (said.returncode, "was removed" in said.stderr) == (2, True), said.stderr


def test_the_folder_is_left_as_it_was_found_except_for_the_store(task_terminal: Terminal) -> None:
    before = set(task_terminal.folder.iterdir())
    granted(task_terminal, "cat")
    task_terminal.process("exec", "cat")
    assert {path.name for path in set(task_terminal.folder.iterdir()) - before} == {".interlock"}


def test_a_task_that_no_file_declares_takes_its_command_after_the_dashes(task_terminal: Terminal) -> None:
    command = ["cleanup", "--", "sh", "-c", "echo ran >> marks; exit 9"]
    assert task_terminal("exec", *command).code == 3
    granted(task_terminal, "cleanup", "--pin", 'argv.0="sh"')

    assert task_terminal.process("exec", *command).code == 9
    assert task_terminal("exec", *command).code == 3
    assert marks(task_terminal) == ["ran"]


def test_a_declared_task_stays_what_it_declares_whatever_follows_the_dashes(task_terminal: Terminal) -> None:
    granted(task_terminal, "mark")
    assert task_terminal.process("exec", "mark", "--", "4").code == 4
    assert marks(task_terminal) == ["ran"]
