"""Run every test in four processes at once: much of a test's time is spent waiting for a server, a lease or a browser.

    python -m tools.suite [what to pass on to pytest]

What one process says is shown as it comes, what the others say at the end. With arguments there is one process, so that
a narrowed run has one report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
# The tests that kill, race and wait; those that drive a browser; those that build and install; the others compute.
APART = (
    ("crash", "races", "service", "linearizability"),
    ("console", "demo", "drills"),
    ("deploy", "docs", "examples", "package", "sdk", "store"),
)


def main(arguments: list[str]) -> int:
    """The exit code: 0 if every part passed."""
    if arguments:
        return subprocess.run([*_pytest(), *arguments], check=False).returncode
    shown, *others = parts()
    with ExitStack() as stack:
        beside = [stack.enter_context(_Beside(part)) for part in others]
        code = subprocess.run([*_pytest(), *shown], check=False).returncode
        return max([code, *(part.end() for part in beside)])


class _Beside:
    """One part in a process of its own, which says nothing before it ends."""

    def __init__(self, part: list[str]) -> None:
        self._part = part
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the part

    def __enter__(self) -> _Beside:
        command = [*_pytest(), *self._part]
        self._process = subprocess.Popen(command, stdout=self._said, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    def end(self) -> int:
        """Wait for it, and print all of what it said."""
        code = self._process.wait()
        self._said.seek(0)
        print("== pytest, another part", flush=True)
        sys.stdout.write(self._said.read())
        return code


def parts() -> list[list[str]]:
    """Every folder of tests, in one part; the first is of those that are in no other."""
    names = sorted(path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    apart = [name for part in APART for name in part]
    computing = tuple(name for name in names if name not in apart)
    return [[str(TESTS / name) for name in part] for part in (computing, *APART)]


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
