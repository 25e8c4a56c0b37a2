"""A real pgbouncer before a PostgreSQL, with the settings that it is shipped with and the pool mode that a test wants.

`make test` unpacks it from Debian's packages if it is not installed; where that cannot be done its tests are skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.harness.postgres_binaries import unprivileged_user
from tests.harness.processes import kill_tree, pick_port
from tests.harness.reaper import reaper

START_SECONDS = 30
UNPACKED = Path(sys.prefix) / "debian"  # see tools/debian.sh

SETTINGS = """
[databases]
* = host={host} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
"""


class Pgbouncer:
    """One pooler that keeps its port across restarts. `start()` before use, `close()` after."""

    def __init__(self, target: str, *, mode: str) -> None:
        parts = urlsplit(target)
        self.port = pick_port()
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self.port}"))
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-pgbouncer-"))
        self._process: subprocess.Popen[bytes] | None = None
        reaper().remove(self._folder)
        self._folder.chmod(0o755)
        self._program, self._libraries = _program(self._folder)
        (self._folder / "users").write_text(f'"{parts.username}" ""\n')
        (self._folder / "ini").write_text(
            SETTINGS.format(
                host=parts.hostname, server_port=parts.port, port=self.port, folder=self._folder, mode=mode
            )
        )

    def start(self) -> Pgbouncer:
        """Start it, and return once it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, self._folder / "ini"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, "LD_LIBRARY_PATH": self._libraries},
                start_new_session=True,
                **unprivileged_user(),
            )
        reaper().watch(self._process.pid)
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self
            time.sleep(0.02)
        raise RuntimeError(f"pgbouncer does not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait(30)
            reaper().forget(self._process.pid)
            self._process = None

    def close(self) -> None:
        """End it and remove what it left."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _program(scratch: Path) -> tuple[str, str]:
    """The program, and where its libraries are if they are not installed.

    What was unpacked is copied to where the user can read it that the pooler runs as.
    """
    installed = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if installed is not None:
        return installed, ""
    if not (UNPACKED / "usr/sbin/pgbouncer").exists():
        pytest.skip(
            "pgbouncer is neither installed nor unpacked; install Debian's package pgbouncer, or run `make test`"
        )
    home = scratch / "debian"
    shutil.copytree(UNPACKED, home, symlinks=True)
    libraries = sorted({str(path.parent) for path in home.rglob("*.so.*")})
    return str(home / "usr/sbin/pgbouncer"), ":".join(libraries)
