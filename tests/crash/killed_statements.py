"""Programs that fork payers, and kill each of them before its nth statement.

Each line on the standard input of such a program, `N NAME`, is one payer: a fork that is killed with SIGKILL before
statement N, or runs to its end. The program answers with one line of JSON, which is null if the payer was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any

from tests.harness.server import clean_env

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 120


class StatementKiller:
    """A trace function that kills this process before its nth statement in `files`, on whichever thread."""

    def __init__(self, files: Collection[str | None], fatal: int) -> None:
        self._files, self._fatal = files, fatal
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


class PayerProgram:
    """A program that makes payers, and reports how each of them ended."""

    def __init__(self, module: str, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=clean_env(),
        )

    def run(self, name: str, *, fatal: int = 0) -> Any:
        """What the program answers once this payer has ended; None if it was killed."""
        assert self._process.stdin
        assert self._process.stdout
        print(fatal, name, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(HANG_SECONDS)
        self._process.stdout.close()
