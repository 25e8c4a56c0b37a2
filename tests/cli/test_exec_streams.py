"""`interlock exec` between a command and whoever started it: streams that are closed, slow or full, and signals."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.task_folder import effect_of, granted, marks, wait_for
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import InterlockServer, clean_env

EXEC = [sys.executable, "-m", "interlock.cli.main", "exec"]
IGNORING_CHILDREN = """\
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
LONG = 300_000


def test_a_command_fails_as_it_failed_also_where_ended_children_are_ignored(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")

    ended = subprocess.run(
        [sys.executable, "-c", IGNORING_CHILDREN, *EXEC, "mark", "7"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, timeout=HANG_SECONDS,
    )  # fmt: skip

    assert ended.returncode == 7
    use = task_terminal("grant", grant["id"], "--json").json["claims"][0]
    assert effect_of(task_terminal, use["execution_id"])["result"]["exit_code"] == 7


def test_what_a_command_says_goes_nowhere_if_stdout_was_closed(
    task_terminal: Terminal, tmp_path: Path
) -> None:
    server = InterlockServer(f"sqlite:///{tmp_path}/interlock.db").start()
    ada, bot = server.create_key("ada"), server.create_key("bot", kind="agent", roles="submit")
    granted(task_terminal, "say", "--url", server.url, "--api-key", ada.key)
    at = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key}

    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *EXEC, "say", "--", "sh", "-c", "echo GET / HTTP/1.1; exit 3"],
        cwd=task_terminal.folder, env=clean_env(at), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        timeout=HANG_SECONDS,
    )  # fmt: skip
    log = server.log()
    server.close()

    assert (ended.returncode, ended.stderr) == (3, b"")
    assert '"status":400' not in log


def test_a_command_that_lists_with_stdout_closed_ends_well(task_terminal: Terminal) -> None:
    task_terminal("init", "--bare")
    words = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *EXEC[:-1], "grants"]
    assert (
        subprocess.run(words, cwd=task_terminal.folder, env=clean_env(), timeout=HANG_SECONDS).returncode == 0
    )


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_is_slow_gets_all_that_was_said(task_terminal: Terminal, blocking: bool) -> None:
    granted(task_terminal, "say")
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    words = [*EXEC, "say", "--", "sh", "-c", f"head -c {LONG} /dev/zero; echo said >> marks; exit 5"]
    process = subprocess.Popen(
        words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=writing
    )
    os.close(writing)

    time.sleep(4)  # for longer than what is left behind is waited for
    said = b""
    while chunk := os.read(reading, 1 << 16):
        said += chunk
    os.close(reading)

    assert (process.wait(HANG_SECONDS), len(said)) == (5, LONG)


def test_how_long_a_command_took_is_not_how_long_its_reader_did(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "say")
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*EXEC, "say", "--", "sh", "-c", "head -c 100000 /dev/zero"],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=writing,
    )  # fmt: skip
    os.close(writing)
    time.sleep(6)
    while os.read(reading, 1 << 16):
        pass
    os.close(reading)
    assert process.wait(HANG_SECONDS) == 0
    use = task_terminal("grant", grant["id"], "--json").json["claims"][0]
    assert effect_of(task_terminal, use["execution_id"])["result"]["duration_ms"] < 4000


def test_a_reader_that_stands_still_keeps_no_command_past_its_time(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "say")
    reading, writing = os.pipe()
    words = [*EXEC, "--timeout", "2s", "say", "--", "sh", "-c", f"head -c {LONG} /dev/zero; echo on >> marks"]
    process = subprocess.Popen(
        words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stdout=writing
    )
    os.close(writing)

    try:
        assert process.wait(HANG_SECONDS) == 124
    finally:
        os.close(reading)
        process.wait(HANG_SECONDS)
    assert not (task_terminal.folder / "marks").exists()
    use = task_terminal("grant", grant["id"], "--json").json["claims"][0]
    assert effect_of(task_terminal, use["execution_id"])["result"]["timed_out"] is True


@pytest.mark.usefixtures("unignored")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_stopped_while_recording_passes_the_exit_code_on_and_says_how_to_record_it(
    task_terminal: Terminal, tmp_path: Path, number: signal.Signals
) -> None:
    server = InterlockServer(f"sqlite:///{tmp_path}/interlock.db").start()
    ada, bot = server.create_key("ada"), server.create_key("bot", kind="agent", roles="submit")
    at = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key, "SERVER": str(server.pid)}
    granted(task_terminal, "halt", "--url", server.url, "--api-key", ada.key)
    halt = ("halt", "--", "sh", "-c", 'kill -STOP "$SERVER"; echo $$ >> marks; echo over >> marks; exit 7')
    process = subprocess.Popen(
        [*EXEC, "--patience", "10m", "--env", "SERVER", *halt],
        cwd=task_terminal.folder, env=clean_env(at), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(task_terminal, "over")
    ours = (task_terminal.folder / "marks").read_text().split()[0]
    while Path(f"/proc/{ours}").exists():
        time.sleep(0.02)
    until = time.monotonic() + HANG_SECONDS
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.3)  # one that comes before it records is for what the command has left behind
        process.send_signal(number)
    _, complaint = process.communicate(timeout=HANG_SECONDS)
    server.close()

    assert process.returncode == 7, complaint
    assert f"stopped by {number.name}" in complaint
    assert "record it with `interlock effect commit exec:" in complaint


def test_a_command_that_asks_at_the_terminal_fails_instead_of_standing_still(task_terminal: Terminal) -> None:
    granted(task_terminal, "ask")
    words = [*EXEC, "--timeout", "20s", "ask", "--", "sh", "-c", "read -r answer < /dev/tty || exit 9"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(task_terminal.folder)
        os.execve(words[0], words, clean_env())
    with contextlib.suppress(OSError):  # which is how a terminal says that nobody is left
        while os.read(terminal, 1 << 16):
            pass
    os.close(terminal)

    # A shell cannot open it (2), or had the answer that nobody gave (9); out of time it would be 124.
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (2, 9)


def test_output_that_finds_no_room_is_said_to_be_lost(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*EXEC, "mark"],
            cwd=task_terminal.folder,
            env=clean_env(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=HANG_SECONDS,
        )
    assert (ended.returncode, b"could be written: No space left on device" in ended.stderr) == (0, True)
    use = task_terminal("grant", grant["id"], "--json").json["claims"][0]
    assert "unheard" not in effect_of(task_terminal, use["execution_id"])["result"]


@pytest.mark.parametrize("full", [True, False])
def test_nobody_who_hears_our_remarks_is_no_reason_to_end_otherwise(
    task_terminal: Terminal, full: bool
) -> None:
    grant = granted(task_terminal, "mark")
    assert task_terminal.process("exec", "mark", "5").code == 5
    use = task_terminal("grant", grant["id"], "--json").json["claims"][0]
    reading, writing = os.pipe()
    os.close(reading)
    deaf = os.open("/dev/full", os.O_WRONLY) if full else writing

    ends = [
        subprocess.run(
            [*EXEC, *words],
            cwd=task_terminal.folder,
            env=clean_env(),
            stdin=subprocess.DEVNULL,
            stderr=deaf,
            timeout=HANG_SECONDS,
        ).returncode
        for words in (["--resume", use["execution_id"]], ["mark"], ["nonsense"])
    ]
    for descriptor in {deaf, writing}:
        os.close(descriptor)

    assert ends == [5, 4, 2]


def test_a_stdin_that_cannot_be_read_is_a_usage_error(task_terminal: Terminal) -> None:
    granted(task_terminal, "cat")
    with (task_terminal.folder / "unread").open("wb") as unreadable:
        ended = subprocess.run(
            [*EXEC, "cat"], cwd=task_terminal.folder, env=clean_env(), stdin=unreadable, stderr=subprocess.PIPE,
            timeout=HANG_SECONDS,
        )  # fmt: skip
    assert (ended.returncode, b"stdin cannot be read" in ended.stderr) == (2, True), ended.stderr


def test_a_signal_that_we_were_started_to_ignore_does_not_reach_the_command(task_terminal: Terminal) -> None:
    granted(task_terminal, "slow")
    words = ["nohup", sys.executable, "-m", "interlock.cli.main", "exec", "slow"]
    process = subprocess.Popen(words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL)
    wait_for(task_terminal, "started")

    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    process.terminate()

    assert process.wait(120) == 7
    assert marks(task_terminal) == ["started", "stopped"]
