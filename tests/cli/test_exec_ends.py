"""How a command of `interlock exec` ends: what is recorded of it, what ends with it, and what it was given and said."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from interlock.cli.execution.process import Signals
from tests.cli.task_folder import effect_of, granted, marks, wait_for
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import InterlockServer, clean_env

EXEC = [sys.executable, "-m", "interlock.cli.main", "exec"]
LONG = 300_000


def ran(task_terminal: Terminal, script: str, *options: str, stdin: str = "") -> tuple[int, Any]:
    """Run a script under a grant of its own; returns the exit code and the record of its effect."""
    grant = granted(task_terminal, "say")
    said = task_terminal.process(
        "exec", *options, "--grant", grant["id"], "say", "--", "sh", "-c", script, stdin=stdin
    )
    (use,) = task_terminal("grant", grant["id"], "--json").json["claims"]
    return said.code, effect_of(task_terminal, use["execution_id"])


def test_an_effect_names_the_hash_of_its_command(task_terminal: Terminal) -> None:
    shown = task_terminal.process("exec", "--show", "say", "--", "sh", "-c", "true").json
    assert ran(task_terminal, "true")[1]["request_hash"] == shown["command_hash"]


def test_a_command_that_a_signal_ended_says_which(task_terminal: Terminal) -> None:
    code, effect = ran(task_terminal, "kill -KILL $$")
    assert code == 128 + signal.SIGKILL
    assert (effect["result"]["exit_code"], effect["result"]["signal"]) == (128 + 9, 9)


def test_the_digest_tells_apart_what_was_said_on_either_stream(task_terminal: Terminal) -> None:
    scripts = ("printf abc", "printf abd", "printf abc >&2", "printf abc; printf de >&2")
    results = [ran(task_terminal, script)[1]["result"] for script in scripts]
    assert len({result["output_digest"] for result in results}) == len(scripts)
    assert [(x["stdout_bytes"], x["stderr_bytes"]) for x in results] == [(3, 0), (3, 0), (0, 3), (3, 2)]
    assert ran(task_terminal, scripts[3])[1]["result"]["output_digest"] == results[3]["output_digest"]


def test_a_command_that_will_not_end_in_time_is_killed(task_terminal: Terminal) -> None:
    code, effect = ran(task_terminal, 'trap "" TERM; sleep 20; echo on >> marks', "--timeout", "1s")
    assert (code, effect["result"]["timed_out"], effect["result"]["signal"]) == (124, True, signal.SIGKILL)
    assert marks(task_terminal) == []


def test_what_a_command_out_of_time_had_started_ends_with_it(task_terminal: Terminal) -> None:
    stubborn = '(trap "" TERM; sleep 5; echo on >> marks) &'
    code, _ = ran(task_terminal, f"{stubborn} (sleep 5; echo on >> marks) & sleep 60", "--timeout", "1s")
    assert code == 124
    time.sleep(5)
    assert marks(task_terminal) == []


def test_a_command_out_of_time_may_clean_up_before_it_is_killed(task_terminal: Terminal) -> None:
    code, _ = ran(
        task_terminal, 'trap "echo cleaned >> marks; exit" TERM; sleep 60 & wait', "--timeout", "1s"
    )
    assert (code, marks(task_terminal)) == (124, ["cleaned"])


def test_what_a_command_out_of_time_says_last_is_heard(task_terminal: Terminal) -> None:
    granted(task_terminal, "say")
    script = 'trap "exec head -c 200000 /dev/zero" TERM; sleep 60 & wait'
    with subprocess.Popen(
        [*EXEC, "--timeout", "1s", "say", "--", "sh", "-c", script],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout
        said = 0
        while chunk := os.read(process.stdout.fileno(), 1 << 14):
            said += len(chunk)
            time.sleep(0.02)
        assert (process.wait(HANG_SECONDS), said) == (124, 200_000)


def test_a_command_has_its_time_and_no_more(task_terminal: Terminal) -> None:
    assert ran(task_terminal, "sleep 3", "--timeout", "2s")[0] == 124


def test_what_a_command_leaves_behind_is_not_waited_for(task_terminal: Terminal) -> None:
    began = time.monotonic()
    code, effect = ran(task_terminal, "sleep 30 & echo said; exit 3")
    assert (code, effect["result"]["stdout_bytes"]) == (3, 5)
    assert time.monotonic() - began < 25


def test_all_that_an_ended_command_said_reaches_a_slow_reader_though_it_left_something_behind(
    task_terminal: Terminal,
) -> None:
    granted(task_terminal, "say")
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*EXEC, "say", "--", "sh", "-c", "sleep 20 & head -c 150000 /dev/zero"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=writing,
    )  # fmt: skip
    os.close(writing)
    time.sleep(4)  # for longer than what is left behind is waited for
    said = 0
    while chunk := os.read(reading, 1 << 16):
        said += len(chunk)
    os.close(reading)
    assert (process.wait(HANG_SECONDS), said) == (0, 150_000)


def test_all_of_a_long_stdin_reaches_the_command(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat")
    text = "".join(f"{number}\n" for number in range(LONG // 6))
    assert task_terminal.process("exec", "cat", stdin=text).out == text


def test_a_command_need_not_read_its_stdin(task_terminal: Terminal) -> None:
    assert ran(task_terminal, "exec <&-; sleep 0.3; exit 4", stdin="x" * LONG)[0] == 4


def test_a_reader_who_left_ends_no_command(task_terminal: Terminal) -> None:
    granted(task_terminal, "say")
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*EXEC, "say", "--", "sh", "-c", f"head -c {LONG} /dev/zero; echo on >> marks; exit 4"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE,
        timeout=HANG_SECONDS,
    )  # fmt: skip
    os.close(writing)
    assert (ended.returncode, ended.stderr, marks(task_terminal)) == (4, b"", ["on"])


@pytest.mark.parametrize("options", [("--timeout", "1s"), ("--timeout", "20m")])
def test_the_record_outlives_the_time_that_the_command_has(
    task_terminal: Terminal, options: tuple[str, ...]
) -> None:
    _, effect = ran(task_terminal, "true", *options)
    began, until = (datetime.datetime.fromisoformat(effect[name]) for name in ("begun_at", "expires_at"))
    allowed = {"1s": 1, "20m": 1200}[options[1]]
    assert until - began >= datetime.timedelta(seconds=allowed + 60)


NAMES = ("HUP", "INT", "QUIT", "USR1", "USR2")


@pytest.mark.usefixtures("unignored")
def test_every_signal_that_may_mean_the_command_reaches_it(task_terminal: Terminal) -> None:
    granted(task_terminal, "say")
    traps = "; ".join(f"trap 'echo {name} >> marks' {name}" for name in NAMES)
    process = subprocess.Popen(
        [*EXEC, "say", "--", "sh", "-c", f"{traps}; echo ready >> marks; while :; do sleep 0.05; done"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(task_terminal, "ready")
        for name in NAMES:
            process.send_signal(signal.Signals[f"SIG{name}"])
            wait_for(task_terminal, name)
    finally:
        process.terminate()
        ended = process.wait(HANG_SECONDS)
    assert ended == 128 + signal.SIGTERM


def test_a_signal_that_comes_before_the_command_runs_reaches_it_once_it_does() -> None:
    signals = Signals()
    signals.hear(signal.SIGTERM, None)
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    signals.pass_on_to(child.pid)
    assert child.wait(30) == -signal.SIGTERM


def test_who_is_stopped_while_asking_whether_it_may_run_ends_by_that_signal(task_terminal: Terminal) -> None:
    server = InterlockServer(f"sqlite:///{task_terminal.folder}/interlock.db").start()
    bot = server.create_key("bot", kind="agent", roles="submit")
    at = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key}
    server.pause()
    process = subprocess.Popen(
        [*EXEC, "--patience", "10m", "mark"],
        cwd=task_terminal.folder, env=clean_env(at), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(3)
    process.terminate()
    ended = process.wait(HANG_SECONDS)
    server.resume()
    server.close()
    assert ended == -signal.SIGTERM
    assert marks(task_terminal) == []
