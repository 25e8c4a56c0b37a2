"""The commands that need a server or a terminal are run as the pages show them, at a server of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.screen import INTERRUPT, Screen
from tests.harness.server import InterlockServer, clean_env

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InterlockServer]:
    """A server on an empty store."""
    started = InterlockServer(f"sqlite:///{tmp_path}/server.db").start()
    yield started
    started.close()


def shown(page: str, heading: str) -> list[str]:
    """The commands of the block with `interlock` commands alone under a heading."""
    section = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = [block.strip().splitlines() for block in section.split("```")[1::2]]
    return [
        line.partition("  #")[0].strip()
        for lines in blocks
        for line in lines
        if line.startswith("interlock ") and not line.startswith("interlock serve")
    ]


def run(folder: Path, command: str, stdin: str = "") -> str:
    """Run one command as typed in a shell, after which it must have worked."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = clean_env({"PATH": path, "XDG_CONFIG_HOME": str(folder / "config")})
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, input=stdin, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_readme_logs_in_and_makes_keys(server: InterlockServer, tmp_path: Path) -> None:
    admin = server.create_key("root", roles="admin").key
    login, *commands = shown("README.md", "A server")
    assert login.startswith("interlock login http://127.0.0.1:8700")
    assert "you are root" in run(tmp_path, login.replace("http://127.0.0.1:8700", server.url), admin)
    assert commands[0] == "interlock whoami"
    said = [run(tmp_path, command) for command in commands]
    assert "root (person)" in said[0]
    assert "ann" in run(tmp_path, "interlock key list")
    assert not (tmp_path / ".interlock").exists()


def test_the_page_about_reviewing_logs_in_and_out(server: InterlockServer, tmp_path: Path) -> None:
    key = server.create_key("ann").key
    login, whoami, logout = shown("docs/howto/review.md", "Log in")
    run(tmp_path, login.replace("https://interlock.example.com", server.url), key)
    assert "ann (person)" in run(tmp_path, whoami)
    assert "logged out" in run(tmp_path, logout)


def test_the_commands_for_a_terminal_work_at_one(server: InterlockServer, tmp_path: Path) -> None:
    key = server.create_key("ann").key
    watch, review = shown("docs/howto/review.md", "Decide at a terminal")
    env = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": key}
    with Screen(tmp_path, *watch.split()[1:], env=env) as screen:
        screen.until("0 requests waiting for you")
        screen.press(INTERRUPT)
        assert screen.end()[0] == 130
    with Screen(tmp_path, *review.split()[1:], env=env) as screen:
        assert "nothing waits for your decision" in screen.end()[1]
