"""Run every test, four folders at once: much of a test's time is spent waiting for a server, a lease or a browser.

    python -m tools.suite [what to pass on to pytest]

Each folder is run by a process of its own, which takes its turn as soon as one of four is free. What it says is shown
when it ends. With arguments there is one process, so that a narrowed run has one report.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
AT_ONCE = 4
# Those that take longest begin first, so that none is left over at the end; the others are quick.
LONGEST = (
    "cli",
    "console",
    "crash",
    "api",
    "docs",
    "sdk",
    "deploy",
    "races",
    "conformance",
    "store",
    "service",
)


def main(arguments: list[str]) -> int:
    """The exit code: 0 if every folder passed."""
    if arguments:
        return subprocess.run([*_pytest(), *arguments], check=False).returncode
    showing = threading.Lock()

    def run(folder: Path) -> int:
        begun = time.monotonic()
        done = subprocess.run(
            [*_pytest(), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        with showing:
            print(f"== pytest tests/{folder.name}, {time.monotonic() - begun:.0f} s", flush=True)
            sys.stdout.buffer.write(done.stdout)
            sys.stdout.flush()
        return done.returncode

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return max(pool.map(run, folders()))


def folders() -> list[Path]:
    """Every folder that has tests, those that take longest first."""
    found = sorted(path for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    return sorted(found, key=lambda path: LONGEST.index(path.name) if path.name in LONGEST else len(LONGEST))


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
