"""The first five minutes of the README: an action is held, decided by a second person, and done.

They are lived through as shown, with the installed wheel, at a terminal in an empty folder. The recording that opens
the README shows the same, as the program prints it today.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from tests.harness.installation import Installation
from tools import recording
from tools.terminal_svg import lines_drawn, lines_of

README = recording.README.read_text()
START = (recording.ROOT / "docs/start.md").read_text()
COMMANDS_MAX = 6
SIZE_MAX = 500_000
_FIVE_LINES = re.compile(r"## Five lines\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What differs from run to run, or from machine to machine.
_PASSING = re.compile(
    r"job_\w{32}|key revoke \w{16}|local:\S+|(?<=, )(now|\d+[sm]( \d+s)? ago)$|(expires )?in \d+h( \d+m)?"
    r"|\(\d{4}-\S+ \S+ UTC\)"
)


class Lived(NamedTuple):
    """What the terminal showed, and the folder where it all happened."""

    lines: list[str]
    folder: Path


@pytest.fixture(scope="module")
def lived(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """The steps of the README, in an empty folder."""
    folder = tmp_path_factory.mktemp("payments")
    return Lived(lines_of(recording.record(folder, installed.env(folder), recording.steps())), folder)


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def commands(title: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", section(title), re.MULTILINE)


def lasting(lines: list[str]) -> list[str]:
    """Lines without what passes."""
    return [_PASSING.sub("…", line) for line in lines]


def answered(installed: Installation, folder: Path, command: str) -> list[dict[str, object]]:
    said = installed.shell(folder, f"{command} --json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)["items"]


def test_six_commands_lead_from_the_installation_to_an_action_that_was_held_decided_and_done(
    installed: Installation, lived: Lived
) -> None:
    install, *others = commands("Your first five minutes")
    # Of the clone, pip builds the wheel that `installed` was given.
    assert install == "pip install ."
    assert others == [step.typed for step in recording.steps() if step.prompt == recording.PROMPT]
    assert len(others) + 1 <= COMMANDS_MAX
    assert (lived.folder / "bank.txt").read_text().splitlines() == ["inv-1 5000", "inv-2 25000"]
    (small, large) = sorted(
        answered(installed, lived.folder, "interlock jobs"), key=lambda job: str(job["id"])
    )
    assert [small["state"], large["state"]] == ["SUCCEEDED", "SUCCEEDED"]
    (held,) = answered(installed, lived.folder, "interlock approvals --state approved")
    assert held["job_id"] == large["id"]


def test_the_one_who_decided_was_not_the_one_who_asked(installed: Installation, lived: Lived) -> None:
    done = answered(installed, lived.folder, "interlock audit")
    (approved,) = [entry for entry in done if entry["action"] == "approve"]
    asked = {entry["actor"] for entry in done if entry["action"] == "submit"}
    assert approved["actor"] == "ann"
    assert len(asked) == 1
    assert "ann" not in asked


def test_a_third_run_pays_nothing(installed: Installation, lived: Lived) -> None:
    before = (lived.folder / "bank.txt").read_text()
    said = installed.shell(lived.folder, commands("Your first five minutes")[-1])
    assert said.stdout.splitlines() == ["inv-1: paid 50.00", "inv-2: paid 250.00"]
    assert (lived.folder / "bank.txt").read_text() == before


def test_what_the_readme_shows_between_the_commands_is_printed(lived: Lived) -> None:
    block = section("Your first five minutes").partition("In an empty folder:")[2].split("```")[1]
    shown = [line for line in block.splitlines()[1:] if line]
    printed = iter(lasting(lived.lines))
    assert not [line for line in lasting(shown) if line not in printed]  # in this order


def test_the_recording_shows_what_the_program_prints_now(lived: Lived) -> None:
    drawn = lines_drawn(recording.IMAGE.read_text())
    assert lasting(drawn) == lasting(lived.lines), "run `make recording`"


def test_the_recording_opens_the_readme_and_needs_nothing_from_elsewhere() -> None:
    first_picture = re.search(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert first_picture
    assert recording.ROOT / first_picture[1] == recording.IMAGE
    assert README.index(first_picture[0]) < README.index("\n## ")
    assert recording.IMAGE.stat().st_size < SIZE_MAX
    picture = ElementTree.fromstring(recording.IMAGE.read_text())
    names = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert names == {"svg", "title", "desc", "style", "rect", "circle", "text", "g"}
    assert not [
        name for element in picture.iter() for name in element.attrib if "href" in name or name[:2] == "on"
    ]
    assert not re.search(r"url\(|@import|@font-face|src:", recording.IMAGE.read_text())


def test_the_first_ten_minutes_work_in_one_folder(installed: Installation, tmp_path: Path) -> None:
    blocks = re.findall(r"^```console\n(.*?)^```", START, re.MULTILINE | re.DOTALL)
    taken = [step for block in blocks for step in recording.steps_of(block)]
    told = {"PROMPT_COMMAND": "echo $? >> ../exits"}  # before each prompt: how the command ended
    lines = lines_of(recording.record(tmp_path, installed.env(tmp_path, told), taken))
    exits = (tmp_path.parent / "exits").read_text().split()
    assert set(exits) == {"0"}, "\n".join(lines)
    assert len(exits) == 1 + len([step for step in taken if step.prompt == recording.PROMPT])
    printed = iter(lasting(lines))
    shown = lasting([line for block in blocks for line in block.splitlines() if line[:2] != recording.PROMPT])
    assert not [line for line in shown if line not in printed]  # in this order
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["inv-1 5000", "inv-2 25000"]


@pytest.fixture
def payments(installed: Installation, tmp_path: Path) -> Path:
    """A folder after `interlock init`, with the five lines in a file."""
    (five_lines,) = _FIVE_LINES.findall(README)
    assert installed.shell(tmp_path, "interlock init").returncode == 0
    (tmp_path / "five.py").write_text(five_lines)
    return tmp_path


def test_the_five_lines_are_five_and_pay_once(installed: Installation, payments: Path) -> None:
    assert len([line for line in (payments / "five.py").read_text().splitlines() if line]) == 5
    for _ in range(2):
        said = installed.shell(payments, "python five.py")
        assert (said.stdout, said.stderr) == ("paid 25.00 for inv-7\n", "")
    assert len(answered(installed, payments, "interlock jobs")) == 1


@pytest.fixture
def waiting(installed: Installation, payments: Path) -> Iterator[subprocess.Popen[str]]:
    """The five lines with the larger payment that the text beside them names."""
    assert '`pay("inv-8", 25_000)`' in section("Five lines")
    program = (payments / "five.py").read_text()
    (payments / "five.py").write_text(program.replace('pay("inv-7", 2_500)', 'pay("inv-8", 25_000)'))
    environment = installed.env(payments)
    command = [str(installed.programs / "python"), "five.py"]
    with subprocess.Popen(
        command, cwd=payments, env=environment, stdout=subprocess.PIPE, text=True
    ) as paying:
        yield paying
        if paying.poll() is None:
            os.kill(paying.pid, signal.SIGKILL)


def test_a_larger_payment_of_the_five_lines_waits_for_a_second_person(
    installed: Installation, payments: Path, waiting: subprocess.Popen[str]
) -> None:
    held = "until JOB=$(interlock approvals --json | grep -o 'job_[0-9a-f]*' -m 1); do sleep 0.1; done"
    said = installed.shell(
        payments,
        f"{held}; ANN=$(interlock key create ann --kind person --roles review); "
        "interlock approve $(echo $JOB | cut -d' ' -f1) --api-key $ANN",
    )
    assert said.returncode == 0, said.stderr
    assert waiting.communicate(timeout=120)[0] == "paid 250.00 for inv-8\n"
