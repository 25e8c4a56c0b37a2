"""A second process that cleans up after this one, however this one ends.

The reaper holds the reading end of a pipe. When the test run exits, crashes or is killed, the pipe closes,
and the reaper kills every process tree and removes every folder it was told about and not told to forget.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness.processes import kill_tree

ROOT = Path(__file__).parents[2]
_END_SECONDS = 30


class Reaper:
    """Tells the reaper process what must not outlive this one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.reaper"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Kill the tree of `pid` when this process is gone."""
        self._tell(f"watch {pid}")

    def forget(self, pid: int) -> None:
        """`pid` has ended and its number may be anyone's now."""
        self._tell(f"forget {pid}")

    def end(self, process: subprocess.Popen[Any]) -> None:
        """Kill the tree of a process that is watched, and watch it no more."""
        kill_tree(process.pid)
        process.wait(_END_SECONDS)
        self.forget(process.pid)

    def remove(self, folder: Path) -> None:
        """Remove `folder` when this process is gone."""
        self._tell(f"remove {folder}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


@functools.cache
def reaper() -> Reaper:
    """The one reaper of this process."""
    return Reaper()


def main() -> None:
    """Read orders until the pipe closes, then carry them out."""
    pids: set[int] = set()
    folders: set[str] = set()
    for line in sys.stdin:
        verb, _, value = line.rstrip("\n").partition(" ")
        if verb == "watch":
            pids.add(int(value))
        elif verb == "forget":
            pids.discard(int(value))
        else:
            folders.add(value)
    for pid in pids:
        with contextlib.suppress(RuntimeError, TimeoutError):
            kill_tree(pid)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
