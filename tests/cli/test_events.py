"""`interlock events`: what happened, and with `--follow` what happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.cli.terminal import HANG_SECONDS, POLICY, Terminal
from tests.harness.server import InterlockServer, clean_env

FREE = "knowledge.read"


def listed(terminal: Terminal, *words: str) -> list[dict[str, Any]]:
    return terminal("events", *words, "--json").json["items"]


def short(event: dict[str, Any]) -> str:
    return event["type"].removeprefix("dev.interlock.")


@pytest.fixture
def told(policy_terminal: Terminal) -> Terminal:
    """A terminal on a store in which a job was submitted, and another one asked for and rejected."""
    policy_terminal.submit(FREE)
    asked = policy_terminal.submit()
    policy_terminal("reject", asked["id"], "--reason", "no")
    return policy_terminal


def test_a_store_where_nothing_happened_says_so(terminal: Terminal) -> None:
    terminal("init", "--bare")
    assert "no events yet" in terminal("events").out
    assert terminal("events", "--json").json == {"items": [], "next_after": 0}


def test_events_are_shown_oldest_first_with_their_positions(told: Terminal) -> None:
    events = listed(told)
    positions = [int(event["position"]) for event in events]
    assert positions == sorted(positions)
    assert [short(event) for event in events][-1] == "approval.rejected"
    lines = told("events").out.splitlines()
    assert [int(line.split()[0]) for line in lines] == positions
    assert events[-1]["subject"] in lines[-1]


def test_events_are_narrowed_by_type_position_and_number(told: Terminal) -> None:
    every = listed(told)
    approvals = [event for event in every if short(event).startswith("approval.")]
    assert listed(told, "--type", "approval.*") == approvals
    middle = every[1]["position"]
    assert listed(told, "--after", middle) == every[2:]
    assert listed(told, "--after", "0", "--limit", "1") == every[:1]
    assert listed(told, "--limit", "1") == every[-1:]
    last = every[-1]["position"]
    assert "no events after that position" in told("events", "--after", last).out


def test_reading_on_from_where_a_page_ends_finds_every_event_once(told: Terminal) -> None:
    after, seen = 0, list[str]()
    while items := (page := told("events", "--after", str(after), "--limit", "2", "--json").json)["items"]:
        seen += [event["id"] for event in items]
        after = page["next_after"]
    assert seen == [event["id"] for event in listed(told)]


@pytest.mark.parametrize(
    "words", [("--after", "x"), ("--after", "-1"), ("--limit", "0"), ("--limit", "9999"), ("--after", "")]
)
def test_a_position_or_limit_that_is_none_is_a_usage_error(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    assert terminal("events", *words).code == 2


@contextmanager
def following(folder: Path, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """`interlock events --follow` as a process, ended after the block whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.cli.main", "events", "--follow", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=clean_env(env),
    )
    guard = Timer(HANG_SECONDS, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


def next_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return json.loads(line)


def test_following_shows_what_was_and_what_comes_and_ends_with_ctrl_c(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer], tmp_path: Path
) -> None:
    (tmp_path / "served.yaml").write_text(POLICY)
    server = serve(f"sqlite:///{tmp_path}/served.db", policy=tmp_path / "served.yaml")
    key = server.create_key("root", kind="person", roles="submit,audit,operate,admin").key
    policy_terminal.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=key)
    first = policy_terminal.submit(FREE)
    words = ("--json", "--type", "job.*")
    with following(tmp_path, *words, INTERLOCK_URL=server.url, INTERLOCK_KEY=key) as process:
        assert next_of(process)["subject"] == first["id"]
        second = policy_terminal.submit(FREE)
        assert next_of(process)["subject"] == second["id"]
        server.restart()
        third = policy_terminal.submit(FREE)
        assert next_of(process)["subject"] == third["id"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG_SECONDS)
    assert out == ""
    assert "stopped" in err
    assert process.returncode == 130


def test_following_works_on_the_embedded_store_too(policy_terminal: Terminal) -> None:
    first = policy_terminal.submit(FREE)
    with following(policy_terminal.folder, "--json", "--type", "job.*") as process:
        assert next_of(process)["subject"] == first["id"]
        second = policy_terminal.submit(FREE)
        assert next_of(process)["subject"] == second["id"]
