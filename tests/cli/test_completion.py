"""Shell completion: made from the parsers, so that it cannot fall behind them."""

from __future__ import annotations

import subprocess

import pytest

from interlock.cli.completion import SHELLS
from interlock.cli.main import entries
from tests.cli.terminal import Terminal

ASK = """
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _interlock
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ap"], {"approvals", "approval", "approve"}),
        (["key", ""], {"create", "list", "show", "revoke"}),
        (["key", "create", "mia", "--kind", ""], {"person", "agent", "worker", "service"}),
        (["--store", "jobs", "jobs", "--sta"], {"--state"}),
        (["jobs", "--state", "A"], {"APPROVAL"}),
        (["approvals", "--state", "re"], {"rejected"}),
        (["policy", "evaluate", "--pri"], {"--priority"}),
        (["policy", "rollb"], {"rollback"}),
        (["approve", "job_1", "--job"], {"--job-hash"}),
        (["submit", "x", "--payload", ""], set[str]()),
        (["session", ""], {"show", "end"}),
        (["run", "start", "nightly", "--wa"], {"--wait"}),
        (["job", "job_1", "--hi"], {"--history"}),
        (["job", "show", "job_1", "--hi"], {"--history"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["serve", "--lock"], {"--lock-busy-status"}),
    ],
)
def test_bash_offers_what_fits(terminal: Terminal, words: list[str], offered: set[str]) -> None:
    script = terminal("completion", "bash").out + ASK
    asked = subprocess.run(["bash", "-c", script, "-", "interlock", *words], capture_output=True, text=True)
    assert asked.stderr == ""
    assert set(asked.stdout.split()) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_every_script(terminal: Terminal, shell: str) -> None:
    script = terminal("completion", shell).out
    assert all(entry.name in script for entry in entries())
    assert "--lock-busy-status" in script or "-l lock-busy-status" in script


def test_an_unknown_shell_is_wrong_usage(terminal: Terminal) -> None:
    assert terminal("completion", "tcsh").code == 2
