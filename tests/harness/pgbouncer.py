"""A real pgbouncer before a PostgreSQL, with the settings that it ships with and the pool mode that a test wants."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.harness.debian_programs import FETCHED, Installed, installed
from tests.harness.postgres_binaries import unprivileged_user
from tests.harness.processes import listens, pick_port
from tests.harness.reaper import reaper

START_SECONDS = 30

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
        self._pgbouncer = _program(self._folder)
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
                [self._pgbouncer.program, self._folder / "ini"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=self._pgbouncer.env(),
                start_new_session=True,
                **unprivileged_user(),
            )
        reaper().watch(self._process.pid)
        if listens(self._process, self.port, START_SECONDS):
            return self
        raise RuntimeError(f"pgbouncer does not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            reaper().end(self._process)
            self._process = None

    def close(self) -> None:
        """End it and remove what it left."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _program(scratch: Path) -> Installed:
    """The program; one that was unpacked is copied to where the user can read it that the pooler runs as."""
    found = installed("pgbouncer")
    if not found.program.is_relative_to(FETCHED):
        return found
    home, unpacked = scratch / "debian", found.program.parents[2]
    shutil.copytree(unpacked, home, symlinks=True)
    libraries = tuple(str(home / Path(each).relative_to(unpacked)) for each in found.libraries)
    return Installed(home / found.program.relative_to(unpacked), libraries)
