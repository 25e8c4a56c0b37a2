"""What claims are measured beside: a log of JSON lines that is scanned under a lock file, as many tools do it."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

_ACQUIRE_SECONDS = 2.0
_POLL_SECONDS = (0.001, 0.01)


class TimedOut(Exception):
    """Somebody else had the lock file for too long."""


def write(log: Path, task: str, spent: int) -> None:
    """A log with one grant that is good for any number of uses, and so many uses on record."""
    lines = [{"grant": 0, "task": task, "approver": "ann"}]
    lines += [{"use": number, "grant": 0, "by": f"exec_{number}"} for number in range(spent)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def claim(log: Path, task: str, execution_id: str) -> bool:
    """Consume the next use of the task's grant; False if there is no grant. Raises `TimedOut`."""
    lock = log.with_suffix(".lock")
    _acquire(lock)
    try:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        grant = next((line["grant"] for line in lines if line.get("task") == task), None)
        if grant is None or any(line.get("by") == execution_id for line in lines):
            return False
        used = sum(line["grant"] == grant and "use" in line for line in lines)
        with log.open("a") as file:
            file.write(json.dumps({"use": used, "grant": grant, "by": execution_id}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return True
    finally:
        lock.unlink()


def _acquire(lock: Path) -> None:
    deadline = time.monotonic() + _ACQUIRE_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return
        except FileExistsError:
            if time.monotonic() >= deadline:
                raise TimedOut from None
        time.sleep(random.uniform(*_POLL_SECONDS))
