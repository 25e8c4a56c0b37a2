"""`interlock approvals --watch`: each request that waits for me is told once, as it comes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.screen import INTERRUPT, Screen
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import clean_env

WATCH = ("approvals", "--watch")


@pytest.fixture
def noor(policy_terminal: Terminal) -> str:
    """The key of a person of finance."""
    return policy_terminal.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")


@pytest.fixture
def watching(
    policy_terminal: Terminal, noor: str, unignored: None
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `interlock approvals --watch` as Noor, into a pipe."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "interlock.cli.main", *WATCH, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=policy_terminal.folder,
                env=clean_env({"INTERLOCK_KEY": noor}),
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_what_waits_and_then_each_new_request_is_one_line(
    policy_terminal: Terminal, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    first = policy_terminal.submit(cents=101)
    process = watching()
    assert f"{first['id']}  finance.payment.execute" in next_line(process)
    for cents in (102, 103):
        job = policy_terminal.submit(cents=cents)
        line = next_line(process)
        assert (job["id"] in line, f'{{"amount_cents": {cents}}}' in line) == (True, True)
    assert "expires in" in line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, out) == (130, "")
    assert "1 request waiting for you" in err
    assert "Traceback" not in err


def test_an_edited_request_is_told_again_and_a_decided_one_is_not(
    policy_terminal: Terminal, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    job = policy_terminal.submit(cents=101)
    process = watching("--json")
    assert json.loads(next_line(process))["payload"] == {"amount_cents": 101}
    policy_terminal("edit", job["id"], "--payload", '{"amount_cents": 77}', "--reason", "less")
    assert json.loads(next_line(process))["payload"] == {"amount_cents": 77}
    policy_terminal("reject", job["id"], "--reason", "no")
    later = policy_terminal.submit(cents=103)
    assert json.loads(next_line(process))["id"] == later["id"]


def test_json_is_one_object_a_line_also_at_a_terminal(policy_terminal: Terminal, noor: str) -> None:
    job = policy_terminal.submit()
    with Screen(policy_terminal.folder, *WATCH, "--json", env={"INTERLOCK_KEY": noor}) as screen:
        line = screen.until("}\n")
        assert json.loads(line)["id"] == job["id"]
        screen.press(INTERRUPT)
        assert screen.end()[0] == 130


@pytest.mark.parametrize("option", ["--mine", "--watch"])
def test_a_state_does_not_go_with_what_is_pending(policy_terminal: Terminal, option: str) -> None:
    said = policy_terminal("approvals", option, "--state", "all")
    assert (said.code, "leave --state out" in said.err) == (2, True)
