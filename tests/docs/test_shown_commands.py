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
_ANY_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(interlock|make|pip|curl|git|python\d?|\./\S+|[A-Z_]+=\S+) ")
# Commands outside of console blocks, and who runs them.
_DEMO, _LOGIN, _BROWSER = "test_demo_transcript.py", "test_login_pages.py", "tests/console/test_readme.py"
_DEPLOYMENTS = "tests/deploy/test_shown_deployments.py"
_NOBODY = "nobody: it would reach another machine"
ELSEWHERE = {
    "make demo": _DEMO,
    "make test": _DEMO,
    "interlock serve --policy policy.yaml": _BROWSER,
    "interlock submit finance.payment.execute --env production --payload "
    '\'{"invoice": "inv-2042", "amount_cents": 25000, "currency": "EUR", "to": "Acme"}\'': _BROWSER,
    "interlock login http://127.0.0.1:8700": _LOGIN,
    "interlock whoami": _LOGIN,
    "interlock key create ann --kind person --roles review --groups finance": _LOGIN,
    "interlock key create billing-bot --kind agent --roles submit --owner ann": _LOGIN,
    "interlock approvals --watch": _LOGIN,
    "interlock review": _LOGIN,
    "interlock login https://interlock.example.com": _LOGIN,
    "interlock logout": _LOGIN,
    'curl -N -H "Authorization: Bearer $INTERLOCK_KEY" "$INTERLOCK_URL/api/v1/events?types=approval.*"': _LOGIN,
    "interlock webhook add https://example.com/interlock --type 'approval.*' --type job.denied": _NOBODY,
    "interlock webhook test wh_…": _NOBODY,
    "python3 -m venv /opt/interlock": _DEPLOYMENTS,
    "pip install '.[nats]'": _NOBODY,
    "INTERLOCK_NATS_URL=nats://127.0.0.1:4222 interlock serve": _NOBODY,
    "pip install '.[postgres]'": _NOBODY,
    "interlock serve --host 0.0.0.0 --store postgresql://interlock@db/interlock": _NOBODY,
}
# What `test_first_minutes.py` runs at a terminal: the installation, blocks with answers, and a story in one folder.
_AT_A_TERMINAL = re.compile(r"^\$ (pip install \.$|interlock review )", re.MULTILINE)
_STORY = ROOT / "docs/start.md"
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
        if page != _STORY and not (page == ROOT / "README.md" and _AT_A_TERMINAL.search(block))
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


def test_whatever_else_looks_like_a_command_is_run_by_a_test_that_is_named_here() -> None:
    """A block that is not run would be trusted, and would rot."""
    others = {
        command
        for page in (ROOT / "README.md", _STORY, *(ROOT / "docs/howto").glob("*.md"))
        if page.name != "share-a-repository.md"  # followed word for word by a test of its own
        for language, block in _ANY_BLOCK.findall(page.read_text())
        if language not in ("console", "python")
        for line in block.splitlines()
        if _COMMAND.match(command := line.partition("  #")[0].strip())
    }
    assert others == set(ELSEWHERE)


def test_a_page_with_a_wrong_command_would_be_caught() -> None:
    assert commands_of("$ interlock nonsense\noutput\n$ cat <<'E'\nx\nE\n$ true") == [
        "interlock nonsense",
        "cat <<'E'\nx\nE",
        "true",
    ]
