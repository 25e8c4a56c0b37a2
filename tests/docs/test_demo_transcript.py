"""What the README shows of the demo is what the demo prints; who won, and how often, differs from run to run."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from interlock.demo.scenes import decisions
from tests.harness.installation import Installation

README = Path(__file__).parents[2] / "README.md"
_CHANCE = re.compile(r"approved|rejected|PENDING|DENIED")
_HISTOGRAM = re.compile(r"^   \d{3} ")


def shown() -> list[str]:
    """The scene in the README."""
    (block,) = re.findall(r"^```text\n(\d+\. .*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return block.rstrip().splitlines()


def played(installed: Installation, folder: Path) -> list[str]:
    """The scene, played alone as the README says: its title and everything up to the next empty line."""
    (arguments,) = re.findall(r'`make demo ARGS="(.*)"`', README.read_text())
    said = installed.shell(folder, f"interlock demo {arguments}")
    assert said.returncode == 0, said.stdout + said.stderr
    lines = said.stdout.splitlines()
    begin = lines.index(shown()[0])
    return [line.rstrip() for line in lines[begin : lines.index("", begin)]]


def told(lines: list[str]) -> list[str]:
    """A scene without what chance decides: the counts and the winner."""
    return [_CHANCE.sub("…", line) for line in lines if not _HISTOGRAM.match(line)]


def test_the_scene_in_the_readme_is_what_the_demo_prints(installed: Installation, tmp_path: Path) -> None:
    lines = played(installed, tmp_path)
    assert told(shown()) == told(lines)
    assert len(shown()) == len(lines)


def test_the_counts_in_the_readme_are_those_of_a_race_that_one_call_won() -> None:
    counts = {
        (int(status), word): int(count)
        for line in shown()
        if _HISTOGRAM.match(line)
        for status, word, count in [line.split()[:3]]
    }
    assert [promise.text for promise in decisions.one_winner(Counter(counts)) if not promise.kept] == []


def test_the_two_commands_of_the_readme_are_targets_of_make() -> None:
    block = README.read_text().partition("## Two commands")[2].split("```")[1]
    commands = [line.partition("#")[0].split() for line in block.splitlines() if line]
    assert commands == [["make", "demo"], ["make", "test"]]
    would = [
        subprocess.run(
            ["make", "--dry-run", *words, "ARGS=--scene 2"], cwd=README.parent, capture_output=True, text=True
        )
        for _, *words in commands
    ]
    assert [said.returncode for said in would] == [0, 0]
    assert "interlock demo --scene 2" in would[0].stdout
    assert "tools.suite --scene 2" in would[1].stdout
