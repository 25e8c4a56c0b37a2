"""The last process to close a SQLite file locks it for a moment; one that is stopped just then delays others a bit."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import NO_RETRIES, Interlock, Unavailable
from interlock.kernel.refusal import LockBusy
from interlock.service.local_kernel import LocalKernel
from tests.harness.server import clean_env

STOPS = """
import os, signal, sys, apsw

class Stopping(apsw.VFS):
    def __init__(self):
        super().__init__("stopping", "", makedefault=True)

    def xDelete(self, name, sync):
        if name.endswith("-wal"):
            print("stops", flush=True)
            signal.raise_signal(signal.SIGSTOP)  # to this very thread, so that it goes no further
        return super().xDelete(name, sync)

stopping = Stopping()
from interlock.service.local_kernel import LocalKernel
LocalKernel(sys.argv[1]).close()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[str]:
    """A store whose last user is stopped as it closes the file."""
    url = f"sqlite:///{tmp_path}/interlock.db"
    LocalKernel(url).close()
    words = [sys.executable, "-c", STOPS, url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=clean_env()) as stopped:
        assert stopped.stdout
        assert stopped.stdout.readline() == "stops\n"
        yield url
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(30) == 0
    LocalKernel(url).close()


def test_a_command_is_told_that_the_file_is_busy(held: str) -> None:
    with pytest.raises(LockBusy, match="to itself"):
        LocalKernel(held, acquire_seconds=0.2)


def test_a_program_is_told_that_the_store_cannot_be_opened(
    held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_ACQUIRE_SECONDS", "0.2")
    with Interlock(store=held, retry=NO_RETRIES) as il, pytest.raises(Unavailable, match="to itself"):
        il.jobs()
