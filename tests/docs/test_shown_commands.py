"""Every command that the documentation shows in a console block is run, block by block, with the installed wheel.

Each block begins in an empty folder. A block that asks a person something is run at a terminal, by another test.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.installation import Installation

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEREDOC = re.compile(r"<<'(\w+)'")
# What `test_first_minutes.py` runs: the installation itself, and the block with answers typed by a person.
_AT_A_TERMINAL = re.compile(r"^\$ (pip install \.$|interlock review )", re.MULTILINE)
# Done, denied, still waiting: all are answers. A usage error or a fault is a page that lies.
_ANSWERS = {0, 3, 4}


def commands_of(block: str) -> list[str]:
    """The commands of a console block; the lines between them are what they print."""
    commands: list[str] = []
    until: str | None = None
    for line in block.splitlines():
        if until is not None:
            commands[-1] += f"\n{line}"
            until = None if line == until else until
        elif line.startswith("$ "):
            commands.append(line[2:])
            heredoc = _HEREDOC.search(line)
            until = heredoc[1] if heredoc else None
    return commands


def blocks() -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}#{number}", block)
        for page in PAGES
        for number, block in enumerate(_BLOCK.findall(page.read_text()), start=1)
        if not (page.name == "README.md" and _AT_A_TERMINAL.search(block))
    ]


@pytest.mark.parametrize(("where", "block"), blocks(), ids=[where for where, _ in blocks()])
def test_the_commands_shown_work(where: str, block: str, installed: Installation, tmp_path: Path) -> None:
    if "ssh-keygen" in block and shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    script = "\n".join(
        f'{command}\nstatus=$?; echo "exit $status" >> exits' for command in commands_of(block)
    )
    said = installed.shell(tmp_path, script)
    exits = [int(line.split()[1]) for line in (tmp_path / "exits").read_text().splitlines()]
    shown = list(zip(commands_of(block), exits, strict=True))
    assert {status for _, status in shown} <= _ANSWERS, f"{where}: {shown}\n{said.stdout}\n{said.stderr}"


def test_a_page_with_a_wrong_command_would_be_caught() -> None:
    assert commands_of("$ interlock nonsense\noutput\n$ cat <<'E'\nx\nE\n$ true") == [
        "interlock nonsense",
        "cat <<'E'\nx\nE",
        "true",
    ]
