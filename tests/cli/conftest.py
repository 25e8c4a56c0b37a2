"""A terminal, and one whose store has a policy in force."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.task_folder import TASKS
from tests.cli.terminal import POLICY, Terminal

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty folder."""
    return Terminal(tmp_path, capsys, monkeypatch)


@pytest.fixture
def policy_terminal(terminal: Terminal) -> Terminal:
    """A terminal in a folder whose embedded store has a policy in force."""
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    return terminal


@pytest.fixture
def task_terminal(terminal: Terminal) -> Terminal:
    """A terminal in a folder with tasks."""
    terminal.file("interlock.yaml", TASKS)
    (terminal.folder / "sub").mkdir()
    return terminal


@pytest.fixture
def unignored() -> Iterator[None]:
    """Whoever runs the tests in the background ignores some signals, and what is ignored is inherited."""
    ignored = [each for each in PASSED_ON if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, signal.SIG_DFL)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)
