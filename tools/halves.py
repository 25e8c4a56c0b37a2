"""Run every test in two processes at once: much of a test's time is spent waiting for a server or a lease.

    python -m tools.halves [what to pass on to pytest]

The halves take about as long as each other. What one says is shown as it comes, what the other says at the end.
With arguments there is one process, so that whoever narrows the run sees one report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
# The tests that kill, race and wait; the others compute.
WAITING = ("crash", "races", "service", "sdk", "linearizability")


def main(arguments: list[str]) -> int:
    """The exit code: 0 if both halves passed."""
    if arguments:
        return subprocess.run([*_pytest(), *arguments], check=False).returncode
    waiting, computing = halves()
    with tempfile.TemporaryFile("w+") as said:
        beside = subprocess.Popen([*_pytest(), *waiting], stdout=said, stderr=subprocess.STDOUT)
        try:
            shown = subprocess.run([*_pytest(), *computing], check=False).returncode
            hidden = beside.wait()
        finally:
            beside.kill()
        said.seek(0)
        print("== pytest, the other half", flush=True)
        sys.stdout.write(said.read())
    return shown or hidden


def halves() -> tuple[list[str], list[str]]:
    """Every folder of tests, in one half or the other."""
    folders = sorted(path for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    waiting = [str(path) for path in folders if path.name in WAITING]
    return waiting, [str(path) for path in folders if path.name not in WAITING]


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
