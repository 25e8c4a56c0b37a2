"""What claims are measured beside: a log of JSON lines that is scanned under a lock file, as many tools do it."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

_ACQUIRE_SECONDS = 2.0
_POLL_SECONDS = (0.001, 0.01)
_AT = "2026-01-02T03:04:05.678901Z"


class TimedOut(Exception):
    """Another process had the lock file for too long."""


def write(log: Path, task: str, spent: int) -> None:
    """A log with that many spent grants, each with its use, and one that is good for any number of uses.

    Each line says what the store's record of the same thing says.
    """
    lines: list[dict[str, Any]] = []
    for number in range(spent):
        grant_id = f"gnt_{number:032x}"
        lines += (_grant(grant_id, task, uses=1), _use(grant_id, task, f"exec_{number:032x}"))
    lines.append(_grant("gnt_open", task, uses=1_000_000_000))
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def claim(log: Path, task: str, execution_id: str) -> bool:
    """Consume a use of the task's oldest open grant; False if there is none. Raises `TimedOut`."""
    lock = log.with_suffix(".lock")
    _acquire(lock)
    try:
        left: dict[str, int] = {}
        with log.open() as file:
            for line in map(json.loads, file):
                if line["task"] != task:
                    continue
                if line["kind"] == "grant":
                    left[line["id"]] = line["uses"]
                elif line["execution_id"] == execution_id:
                    return False
                else:
                    left[line["grant_id"]] -= 1
        grant_id = next((grant_id for grant_id, uses in left.items() if uses > 0), None)
        if grant_id is None:
            return False
        with log.open("a") as file:
            file.write(json.dumps(_use(grant_id, task, execution_id)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return True
    finally:
        lock.unlink()


def _grant(grant_id: str, task: str, *, uses: int) -> dict[str, Any]:
    return {
        "kind": "grant",
        "tenant": "default",
        "id": grant_id,
        "task": task,
        "uses": uses,
        "approver": "local:ann",
        "approver_person": "local:ann",
        "issued_at": _AT,
        "expires_at": _AT,
    }


def _use(grant_id: str, task: str, execution_id: str) -> dict[str, Any]:
    return {
        "kind": "use",
        "tenant": "default",
        "grant_id": grant_id,
        "task": task,
        "execution_id": execution_id,
        "use": 1,
        "claimed_by": "local:bot",
        "claimed_at": _AT,
        "args_digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }


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
