"""From an empty folder to the first decision in the browser, by the steps of the README and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.processes import pick_port

README = (Path(__file__).parents[2] / "README.md").read_text()
_PLACE = {"INTERLOCK_LOG_LEVEL": "error", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def section(title: str) -> str:
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


def commands() -> list[list[str]]:
    """The commands of the section, each run by this interpreter's `interlock`."""
    blocks = re.findall(r"^```\n(.*?)^```", section("In the browser"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def policy() -> str:
    return re.findall(r"cat > policy.yaml <<'EOT'\n(.*?)^EOT", README, re.MULTILINE | re.DOTALL)[0]


@contextlib.contextmanager
def serving(command: list[str], folder: Path) -> Iterator[str]:
    """Run the README's server; yields the link of its banner."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK")} | _PLACE
    env["INTERLOCK_PORT"] = str(pick_port())
    interlock = str(Path(sys.executable).with_name(command[0]))
    with subprocess.Popen(
        [interlock, *command[1:]],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if found := re.search(r"http://\S+/console/sign-in\?link=\S+", line):
                    yield found[0]
                    return
            pytest.fail(f"no link in the banner:\n{said}")
        finally:
            process.send_signal(signal.SIGTERM)


def test_the_steps_of_the_readme_lead_to_a_decision(page: Page, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(policy())
    serve, submit = commands()
    assert serve[:2] == ["interlock", "serve"]
    with serving(serve, tmp_path) as link:
        page.goto(link)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
        interlock = str(Path(sys.executable).with_name(submit[0]))
        env = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK")}
        ran = subprocess.run(
            [interlock, *submit[1:]], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode in (0, 4), ran.stderr
        page.get_by_role("link", name="Pays 250.00 EUR to Acme in production").click()
        expect(page.get_by_text("opened it")).to_be_visible()
        page.keyboard.press("a")
        expect(page.get_by_role("status")).to_contain_text("You approved it")
