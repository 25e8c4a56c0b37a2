"""How much of a repeated test to run: `make test` takes one dose, `make soak` many, and shows how far it is."""

from __future__ import annotations

import os
import sys

import pytest

from interlock.cli.progress import Progress


def factor() -> float:
    """The soak factor, 1 unless INTERLOCK_SOAK says otherwise."""
    return float(os.environ.get("INTERLOCK_SOAK", "1"))


def dose(n: int) -> int:
    """`n` repetitions times the soak factor, and never fewer than one."""
    return max(1, round(n * factor()))


class SoakProgress:
    """How many tests of a soak are over, and about how long the others take: in place of pytest's dots.

    A soak multiplies what a test repeats, so it may be silent for minutes. With `--quiet` nothing is shown.
    """

    def __init__(self, config: pytest.Config) -> None:
        is_quiet = config.get_verbosity() < 0
        # Pytest captures what tests write to stderr; this stream is the one that it was started with.
        self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
        self._progress = Progress("soak", is_shown=not is_quiet, quick_seconds=0, stream=self._stream)
        self._is_drawn = not is_quiet and self._stream.isatty()
        self._done = self._total = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = len(session.items)
        if self._is_drawn:
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter:
                reporter.showfspath = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._progress(nodeid, self._done, self._total)

    def pytest_runtest_logfinish(self) -> None:
        self._done += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dot for a test that passed: it would be written into the line that is drawn."""
        self._progress.wipe()
        return ("passed", "", "") if self._is_drawn and report.passed and report.when == "call" else None

    def pytest_unconfigure(self) -> None:
        self._progress.wipe()
        self._stream.close()
