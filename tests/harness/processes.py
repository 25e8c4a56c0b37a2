"""Signals for whole process trees, and ports that stay free while nobody listens on them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROUNDS_MAX = 20
PORTS_BELOW_EPHEMERAL = 12_000


def kill_tree(pid: int) -> None:
    """SIGKILL `pid` and all its descendants as if the power failed; returns once none of them runs."""
    doomed = freeze_tree(pid)
    _send(doomed, signal.SIGKILL)
    wait_until_gone(doomed)


def freeze_tree(pid: int) -> list[int]:
    """SIGSTOP `pid` and all its descendants and return them, the root first."""
    frozen: list[int] = []
    for _ in range(ROUNDS_MAX):
        # The parent stops first and the tree is listed again, so a child forked in between is caught.
        fresh = [member for member in [pid, *descendants(pid)] if member not in frozen]
        if not fresh:
            return frozen
        _send(fresh, signal.SIGSTOP)
        frozen += fresh
    raise RuntimeError(f"process {pid} forks faster than it can be stopped")


def thaw(pids: Iterable[int]) -> None:
    """SIGCONT exactly the processes that `freeze_tree` returned."""
    _send(pids, signal.SIGCONT)


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents before their children."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    children: dict[int, list[int]] = {}
    for line in listing.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for member in found:
        found.extend(children.get(member, ()))
    return found


def listens(process: subprocess.Popen[Any], port: int, seconds: float) -> bool:
    """Whether a process comes to accept connections on a port of this machine, before it ends and in time."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.02)
    return False


def is_running(pid: int) -> bool:
    """Whether `pid` can still do anything; a zombie cannot."""
    status = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        with contextlib.suppress(OSError):
            return status.read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
        return False
    return subprocess.run(["ps", "-p", str(pid)], capture_output=True).returncode == 0


def wait_until_gone(pids: Iterable[int], *, seconds: float = 30) -> None:
    """Return once none of `pids` runs; raise TimeoutError if that takes longer than `seconds`."""
    waiting = list(pids)
    deadline = time.monotonic() + seconds
    while waiting := [pid for pid in waiting if is_running(pid)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {waiting} do not end")
        time.sleep(0.005)


def pick_port() -> int:
    """A free TCP port of 127.0.0.1 that the system hands to no outgoing connection.

    A port from the ephemeral range can be taken by anyone while a killed server restarts, and a client that
    keeps dialling it can even connect to itself.
    """
    floor = _ephemeral_floor()
    for _ in range(100):
        candidate = random.randrange(max(1024, floor - PORTS_BELOW_EPHEMERAL), floor)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", candidate))
            return candidate
    raise RuntimeError("no free port found below the ephemeral range")


def _ephemeral_floor() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 32_768


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
