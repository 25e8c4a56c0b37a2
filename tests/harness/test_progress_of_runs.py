"""`make soak` and `make bench` show how far they are: a line on a terminal, lines elsewhere, nothing with `--quiet`."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import course, in_turns

ROOT = Path(__file__).parents[2]
SOAK = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "console_output_style=classic"]
TESTS = "tests/harness/test_soak.py"
ENV = {**os.environ, "INTERLOCK_SOAK": "2", "TERM": "xterm"}


def at_a_terminal(command: list[str]) -> tuple[int, str]:
    """Run a command at a pseudo-terminal; its exit code and all that it showed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=ROOT, env=ENV, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while content := os.read(ours, 1 << 16):
                shown += content
        except OSError:  # which is how a terminal says that nobody writes to it any more
            pass
    os.close(ours)
    return process.returncode, shown.decode(errors="replace")


def test_a_soak_draws_one_line_on_a_terminal_in_place_of_dots() -> None:
    code, shown = at_a_terminal([*SOAK, TESTS])
    assert code == 0
    assert re.search(r"\rsoak  [█░]{20}  0 of 4  tests/harness/test_soak", shown), shown
    assert "\r\x1b[K" in shown
    assert not re.search(r"test_soak\.py \S*\.", shown)
    assert "4 passed" in shown


@pytest.mark.parametrize(("words", "lines"), [((), 1), (("--quiet",), 0)])
def test_a_soak_writes_lines_into_a_pipe_and_none_with_quiet(words: tuple[str, ...], lines: int) -> None:
    ended = subprocess.run([*SOAK, *words, TESTS], cwd=ROOT, env=ENV, capture_output=True, text=True)
    assert ended.returncode == 0
    assert [line.partition("::")[0] for line in ended.stderr.splitlines()] == [
        f"soak: 0 of 4: {TESTS}"
    ] * lines
    assert "soak: " not in ended.stdout


def test_an_ordinary_run_shows_no_progress_of_a_soak() -> None:
    plain = {**ENV, "INTERLOCK_SOAK": "1"}
    ended = subprocess.run([*SOAK, TESTS], cwd=ROOT, env=plain, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(("quiet", "lines"), [(False, ["bench: 3 of 11: kernel"]), (True, [])])
def test_a_benchmark_tells_which_of_its_sections_it_measures(
    capsys: pytest.CaptureFixture[str], *, quiet: bool, lines: list[str]
) -> None:
    with course.shown(quiet=quiet):
        course.begin("kernel", 3, 11)
        assert in_turns({"ours": lambda: 1.0, "theirs": lambda: 2.0}, 2) == {"ours": [1, 1], "theirs": [2, 2]}
    said = capsys.readouterr()
    assert (said.err.splitlines(), said.out) == (lines, "")


def test_bench_takes_quiet_and_names_its_sections() -> None:
    command = [sys.executable, "-m", "bench", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert "--quiet" in said
    assert "kernel" in said
