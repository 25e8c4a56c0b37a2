"""What the README shows of the demo is what the demo prints; who won, and how often, differs from run to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.demo.performance import perform
from interlock.demo.scenes import SCENES, decisions

README = Path(__file__).parents[2] / "README.md"
_CHANCE = re.compile(r"approved|rejected|PENDING|DENIED")
_HISTOGRAM = re.compile(r"^   \d{3} ")


def shown() -> list[str]:
    """The scene in the README."""
    (block,) = re.findall(r"^```text\n(\d+\. .*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return block.rstrip().splitlines()


def played(capsys: pytest.CaptureFixture[str], title: str) -> list[str]:
    """The same scene, played alone: its title and everything up to the next empty line."""
    (scene,) = (scene for scene in SCENES if scene.title == title)
    assert perform([scene]) is True
    lines = capsys.readouterr().out.splitlines()
    begin = next(place for place, line in enumerate(lines) if title in line)
    end = lines.index("", begin)
    return [line.rstrip() for line in lines[begin:end]]


def told(lines: list[str]) -> list[str]:
    """A scene without what chance decides: the counts, the winner, and the scene's number."""
    kept = (line for line in lines if not _HISTOGRAM.match(line))
    return [_CHANCE.sub("…", re.sub(r"^\d+\. ", "", line)) for line in kept]


def test_the_scene_in_the_readme_is_what_the_demo_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    number, _, title = shown()[0].partition(". ")
    assert [scene.title for scene in SCENES][int(number) - 1] == title
    lines = played(capsys, title)
    assert told(shown()) == told(lines)
    assert len(shown()) == len(lines)


def test_the_counts_in_the_readme_are_those_of_a_race_that_one_call_won() -> None:
    counts = {
        (int(status), word): int(count)
        for line in shown()
        if _HISTOGRAM.match(line)
        for status, word, count in [line.split()[:3]]
    }
    from collections import Counter

    assert [promise.text for promise in decisions.one_winner(Counter(counts)) if not promise.kept] == []
