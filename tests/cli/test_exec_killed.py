"""Whoever kills `interlock exec` ends its command too, with all that it started; and nothing says that it was done."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from interlock.cli.execution import process as execution_process
from tests.cli.task_folder import effect_of, granted, wait_for
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import clean_env

EXEC = [sys.executable, "-m", "interlock.cli.main", "exec"]
# Everything it starts keeps the pipe open, so the pipe ends with the last of them.
HOLD = "exec 9>alive; sleep 600 & (trap '' TERM HUP INT; echo started >> marks; sleep 600) & wait"


@pytest.fixture
def alive(task_terminal: Terminal) -> Generator[int]:
    """The reading end of a pipe that a command may hold open."""
    path = task_terminal.folder / "alive"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def has_ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], HANG_SECONDS)[0]) and os.read(descriptor, 1) == b""


def started(task_terminal: Terminal, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*EXEC, *words],
        cwd=task_terminal.folder,
        env=clean_env(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(task_terminal, "started")
    return process


def kill_it(process: subprocess.Popen[bytes]) -> None:
    process.kill()


def kill_its_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_it, kill_its_group])
def test_a_command_and_all_that_it_started_end_with_exec(
    task_terminal: Terminal, alive: int, kill: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    grant = granted(task_terminal, "hold")
    process = started(task_terminal, "hold", "--", "sh", "-c", HOLD)
    kill(process)
    assert process.wait(HANG_SECONDS) == -signal.SIGKILL
    assert has_ended(alive)
    (use,) = task_terminal("grant", grant["id"], "--json").json["claims"]
    assert effect_of(task_terminal, use["execution_id"])["state"] == "IN_PROGRESS"
    again = task_terminal("exec", "--resume", use["execution_id"], "--", "sh", "-c", HOLD)
    assert again.code != 0
    assert (task_terminal.folder / "marks").read_text() == "started\n"


def test_a_command_that_policy_allows_ends_with_exec(task_terminal: Terminal, alive: int) -> None:
    policy = task_terminal.file("allow.yaml", "version: v1\ndefault: allow\nrules: []\n")
    assert task_terminal("policy", "apply", policy).code == 0
    process = started(task_terminal, "--", "sh", "-c", HOLD)
    process.kill()
    process.wait(HANG_SECONDS)
    assert has_ended(alive)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere no kernel does it")
def test_the_kernel_kills_the_command_where_there_is_no_shell_to_watch_it(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        "from interlock.cli.execution.process import dying_with_parent\n"
        "subprocess.Popen(['sleep', '600'], stdout=1, preexec_fn=dying_with_parent())\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert has_ended(process.stdout.fileno())
        assert process.wait(HANG_SECONDS) == -signal.SIGKILL


def test_without_a_shell_the_command_runs_all_the_same(
    task_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_process, "_SHELL", str(task_terminal.folder / "no-shell"))
    granted(task_terminal, "mark")
    assert task_terminal("exec", "mark").code == 0


def test_what_a_command_left_behind_on_purpose_lives_on(task_terminal: Terminal, alive: int) -> None:
    granted(task_terminal, "leave")
    script = "exec 9>alive; sleep 600 >/dev/null 2>&1 </dev/null & echo $! > left"
    assert task_terminal.process("exec", "leave", "--", "sh", "-c", script).code == 0
    is_over = bool(select.select([alive], [], [], 0)[0])
    os.kill(int((task_terminal.folder / "left").read_text()), signal.SIGKILL)
    assert not is_over
