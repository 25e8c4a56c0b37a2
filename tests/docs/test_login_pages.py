"""The commands that need a server or a terminal are run as the pages show them, at a server of the test's own."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.execution.tasks import read_tasks
from interlock.kernel.codec.located import plain
from interlock.kernel.codec.located_yaml import read_yaml
from interlock.rooms.policy.parser import parse_policy
from interlock.service.providers import providers_from
from interlock.service.settings import settings_from
from tests.cli.screen import INTERRUPT, Screen
from tests.harness.installation import Installation
from tests.harness.server import InterlockServer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(installed: Installation, tmp_path: Path) -> Iterator[InterlockServer]:
    """A server on an empty store."""
    command = (str(installed.programs / "interlock"),)
    started = InterlockServer(f"sqlite:///{tmp_path}/server.db", command=command).start()
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


def run(installed: Installation, folder: Path, command: str, stdin: str = "") -> str:
    """Run one command as typed in a shell, after which it must have worked."""
    done = installed.shell(folder, command, stdin=stdin)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_readme_logs_in_and_makes_keys(
    installed: Installation, server: InterlockServer, tmp_path: Path
) -> None:
    admin = server.create_key("root", roles="admin").key
    login, *commands = shown("README.md", "A server")
    assert login.startswith("interlock login http://127.0.0.1:8700")
    assert "you are root" in run(
        installed, tmp_path, login.replace("http://127.0.0.1:8700", server.url), admin
    )
    assert commands[0] == "interlock whoami"
    said = [run(installed, tmp_path, command) for command in commands]
    assert "root (person)" in said[0]
    assert "ann" in run(installed, tmp_path, "interlock key list")
    assert not (tmp_path / ".interlock").exists()


def test_the_page_about_reviewing_logs_in_and_out(
    installed: Installation, server: InterlockServer, tmp_path: Path
) -> None:
    key = server.create_key("ann").key
    login, whoami, logout = shown("docs/howto/review.md", "Log in")
    run(installed, tmp_path, login.replace("https://interlock.example.com", server.url), key)
    assert "ann (person)" in run(installed, tmp_path, whoami)
    assert "logged out" in run(installed, tmp_path, logout)


def test_the_commands_for_a_terminal_work_at_one(
    installed: Installation, server: InterlockServer, tmp_path: Path
) -> None:
    key = server.create_key("ann").key
    watch, review = shown("docs/howto/review.md", "Decide at a terminal")
    env = installed.env(tmp_path, {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": key})
    with Screen(tmp_path, env=env, command=watch.split()) as screen:
        screen.until("0 requests waiting for you")
        screen.press(INTERRUPT)
        assert screen.end()[0] == 130
    with Screen(tmp_path, env=env, command=review.split()) as screen:
        assert "nothing waits for your decision" in screen.end()[1]


def test_the_stream_of_events_is_read_by_the_command_shown(
    installed: Installation, server: InterlockServer, tmp_path: Path
) -> None:
    (command,) = re.findall(r"^curl .*$", (ROOT / "docs/howto/receive-events.md").read_text(), re.MULTILINE)
    key = server.create_key("ann", roles="submit,review,audit,admin").key
    place = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": key}
    (tmp_path / "policy.yaml").write_text("version: v1\ndefault: require_human\n")
    assert installed.shell(tmp_path, "interlock policy apply policy.yaml", more=place).returncode == 0
    with (
        (tmp_path / "stream").open("w") as said,
        subprocess.Popen(
            ["bash", "-c", f"exec {command}"], env=installed.env(tmp_path, place), stdout=said
        ) as curl,
    ):
        # It begins with what happens once it is connected.
        while "event: dev.interlock.approval." not in (tmp_path / "stream").read_text():
            assert curl.poll() is None
            assert installed.shell(tmp_path, "interlock submit a.b", more=place).returncode == 4
            time.sleep(0.1)
        curl.kill()


def test_the_files_shown_are_read(tmp_path: Path) -> None:
    tasks = _shown_file("docs/howto/grants-and-exec.md", "yaml", "tasks:")
    found = read_tasks(plain(read_yaml(tasks).root))
    assert list(found) == ["deploy"]
    assert found["deploy"].approval.groups == ("ops",)
    assert parse_policy(_shown_file("docs/howto/write-a-policy.md", "yaml", "yaml-language-server"))
    providers = tmp_path / "providers.toml"
    providers.write_text(_shown_file("docs/howto/sign-in.md", "toml", "issuer"))
    for name in ("google", "corp"):
        (tmp_path / f"{name}.secret").write_text("secret")
    signing_in = providers_from(settings_from({}, oidc_providers=str(providers)))
    assert [provider.id for provider in signing_in] == ["google", "corp"]


def _shown_file(page: str, language: str, containing: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if containing in block]
    return block
