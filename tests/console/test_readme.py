"""From an empty folder to the first decision in the browser, by the steps of the README and nothing else."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.installation import Installation
from tests.harness.processes import pick_port

RECORDING = Path(__file__).parents[2] / "docs/images/first-payment.svg"
README = (Path(__file__).parents[2] / "README.md").read_text()
_PLACE = {"INTERLOCK_LOG_LEVEL": "error", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def section(title: str) -> str:
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


def commands() -> list[list[str]]:
    """The commands of the section."""
    blocks = re.findall(r"^```\n(.*?)^```", section("In the browser"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def policy() -> str:
    return re.findall(r"cat > policy.yaml <<'EOT'\n(.*?)^EOT", README, re.MULTILINE | re.DOTALL)[0]


@contextlib.contextmanager
def serving(installed: Installation, command: list[str], folder: Path) -> Iterator[str]:
    """Run the README's server; yields the link of its banner."""
    with subprocess.Popen(
        [str(installed.programs / command[0]), *command[1:]],
        cwd=folder,
        env=installed.env(folder, {**_PLACE, "INTERLOCK_PORT": str(pick_port())}),
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


def test_the_steps_of_the_readme_lead_to_a_decision(
    page: Page, installed: Installation, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(policy())
    serve, submit = commands()
    assert serve[:2] == ["interlock", "serve"]
    with serving(installed, serve, tmp_path) as link:
        page.goto(link)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
        ran = installed.shell(tmp_path, shlex.join(submit))
        assert ran.returncode in (0, 4), ran.stderr
        page.get_by_role("link", name="Pays 250.00 EUR to Acme in production").click()
        expect(page.get_by_text("opened it")).to_be_visible()
        page.keyboard.press("a")
        expect(page.get_by_role("status")).to_contain_text("You approved it")


_IN_SIGHT = """
(milliseconds) => {
  for (const each of document.getAnimations()) { each.pause(); each.currentTime = milliseconds; }
  const window = document.querySelector('svg svg').getBoundingClientRect();
  return [...document.querySelectorAll('#sheet text')].filter(text => {
    const place = text.getBoundingClientRect();
    return getComputedStyle(text).visibility === 'visible' && place.top >= window.top && place.bottom <= window.bottom;
  }).map(text => text.textContent).join('\\n');
}
"""


def test_the_recording_plays_from_the_first_command_to_the_payment(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.set_content(RECORDING.read_text())
    length = page.evaluate("document.getAnimations()[0].effect.getTiming().duration")
    begin, middle, end = (page.evaluate(_IN_SIGHT, length * part) for part in (0, 0.6, 0.95))
    assert begin == "$"
    assert "approve? [y, n, e, s, q, ?]" in middle
    assert "inv-2: paid 250.00" not in middle
    assert "inv-2: paid 250.00" in end


def test_who_wants_no_motion_sees_how_the_recording_ends(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.set_content(RECORDING.read_text())
    assert page.evaluate("document.getAnimations().length") == 0
    assert "inv-2: paid 250.00" in page.evaluate(_IN_SIGHT, 0)
