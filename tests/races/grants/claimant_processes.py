"""Claimant processes that all ask at one moment."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from tests.harness.reaper import reaper
from tests.harness.server import clean_env

ROOT = Path(__file__).parents[3]
HANG_SECONDS = 120


class Claimant:
    """One process."""

    def __init__(self, place: str, key: str | None = None) -> None:
        words = [sys.executable, "-m", "tests.races.grants.claimant_program", place, *([key] if key else [])]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=clean_env({"PYTHONPATH": path}),
            start_new_session=True,
        )
        reaper().watch(self.process.pid)
        self._buffer = b""

    def ask(self, **claim: Any) -> None:
        """Send a claim, without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(claim).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, seconds: float = HANG_SECONDS) -> Any:
        """The next answer, or None if none comes in time or the process ended."""
        assert self.process.stdout is not None
        descriptor, until = self.process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            chunk = os.read(descriptor, 65536) if ready else b""
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        reaper().end(self.process)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close() if stream else None


class ClaimantProcesses:
    """Claimants at the given places, in turn."""

    def __init__(self, places: Sequence[tuple[str, str | None]], size: int = 8) -> None:
        self._name = token_hex(4)  # others on the same store have executions of its own
        self.members = [Claimant(*places[number % len(places)]) for number in range(size)]
        for member in self.members:
            assert member.answer() is not None, "a claimant did not start"

    def ask(self, task: str, round_name: object = "", **fields: Any) -> list[Any]:
        """All claim at once, each as an execution of its own; returns all answers."""
        for number, member in enumerate(self.members):
            member.ask(task=task, execution_id=f"{self._name}-{round_name}-{number}", **fields)
        return [member.answer() for member in self.members]

    def close(self) -> None:
        for member in self.members:
            member.close()
