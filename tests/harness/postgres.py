"""A real PostgreSQL in a temporary folder, owned by the tests: started, paused, killed and restarted at will.

It runs as root or as an ordinary user, listens on 127.0.0.1 only, and keeps its port across restarts, so
that a URL stays good for as long as the server object lives. Durability is the real thing: fsync and
synchronous commit are on, because crash tests rest on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg

from tests.harness.postgres_binaries import Binaries
from tests.harness.postgres_cluster import USER, put_cluster
from tests.harness.processes import freeze_tree, kill_tree, pick_port, thaw
from tests.harness.reaper import reaper

START_SECONDS = 60
START_ATTEMPTS = 5

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "jit": "off",
    # In the data folder, which is removed: a killed server leaves what it had elsewhere behind.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%d ",
}

CUT_OFF = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'"

EMPTY = """
DO $$
DECLARE doomed text;
BEGIN
    FOR doomed IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', doomed);
    END LOOP;
    CREATE SCHEMA public;
END $$
"""

_names = itertools.count(1)


class PostgresServer:
    """One PostgreSQL cluster. `start()` before use, `close()` after; all between may be repeated."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.port = pick_port()
        self._settings = SETTINGS | (settings or {})
        self._folder: Path | None = None
        self._binaries: Binaries | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[int] = []
        self._spare: list[str] = []

    # --- life ---

    def start(self) -> None:
        """Create the cluster if this is the first start, start it, and return once it accepts connections."""
        if self.running:
            return
        if self._folder is None:
            self._initialise()
        for attempt in range(1, START_ATTEMPTS + 1):
            self._launch()
            if self._becomes_ready():
                return
            self._reap()
            time.sleep(0.2 * attempt)  # The port may have been taken for a moment.
        raise RuntimeError(f"PostgreSQL does not start; its log ends:\n{self.log_tail()}")

    def stop(self) -> None:
        """End it in good order (what is committed is checkpointed), cutting its clients off."""
        if not self.running:
            return
        self.resume()
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            kill_tree(self._process.pid)
        self._reap()

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children at one moment, as if the power failed."""
        if self._process is None:
            return
        kill_tree(self._process.pid)
        self._frozen = []
        self._reap()

    def restart(self) -> None:
        """Stop if it is running, then start on the same port with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP the whole tree: connections stay open and nothing answers."""
        assert self._process is not None, "start() it first"
        self._frozen = freeze_tree(self._process.pid)

    def resume(self) -> None:
        """SIGCONT what `pause()` stopped."""
        thaw(self._frozen)
        self._frozen = []

    def close(self) -> None:
        """End it and remove everything it left."""
        # What will be removed need not be checkpointed, which takes long after many small databases.
        self.kill()
        if self._folder is not None:
            self._release_shared_memory()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def pid(self) -> int:
        """The process above all others of this server."""
        assert self._process is not None, "start() it first"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the postmaster is alive (paused counts as alive)."""
        return self._process is not None and self._process.poll() is None

    # --- databases ---

    def url(self, dbname: str = "postgres") -> str:
        """The address of one database; good across restarts."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{dbname}"

    def create_database(self) -> str:
        """The URL of a database that nobody used before, or of one that `drop` emptied."""
        if self._spare:
            return self._spare.pop()
        name = f"t{os.getpid()}_{next(_names)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Cut the clients of a database from `create_database` off and leave nothing of what it held."""
        name = url.rpartition("/")[2]
        self.execute(f'ALTER DATABASE "{name}" RESET ALL')
        self.execute(CUT_OFF.format(name=name))
        # Emptying takes 2 ms where DROP and CREATE DATABASE take 200, and most tests want a database.
        self.execute(EMPTY, dbname=name)
        self._spare.append(url)

    def execute(self, sql: str, *, dbname: str = "postgres") -> str:
        """Run one statement from any thread, in or out of an event loop; returns its status."""

        async def run() -> str:
            connection = await asyncpg.connect(self.url(dbname), timeout=30)
            try:
                return await connection.execute(sql)
            finally:
                await connection.close()

        return in_own_loop(run())

    def log_tail(self, lines: int = 40) -> str:
        """The end of the server's log."""
        if self._folder is None or not (self._folder / "log").exists():
            return ""
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-lines:])

    # --- inside ---

    def _initialise(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="interlock-postgres-"))
        reaper().remove(folder)
        folder.chmod(0o755)
        self._binaries = put_cluster(folder / "data")
        self._folder = folder

    def _launch(self) -> None:
        assert self._folder is not None
        assert self._binaries is not None
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries.folder / "postgres",
                    "-D",
                    self._folder / "data",
                    f"--port={self.port}",
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
                **self._binaries.run_as,
            )
        reaper().watch(self._process.pid)

    def _becomes_ready(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            lines = self._postmaster_file()
            # A killed server leaves its file behind, so "ready" counts only under this process's number.
            if len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                return True
            time.sleep(0.01)
        return False

    def _postmaster_file(self) -> list[str]:
        assert self._folder is not None
        with contextlib.suppress(OSError):
            return (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        return []

    def _reap(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            kill_tree(self._process.pid)
        self._process.wait(30)
        reaper().forget(self._process.pid)
        self._process = None

    def _release_shared_memory(self) -> None:
        # Only a killed server leaves the file, and with it the few bytes of shared memory it names.
        lines = self._postmaster_file()
        if len(lines) >= 7 and len(lines[6].split()) == 2 and shutil.which("ipcrm"):
            subprocess.run(["ipcrm", "-m", lines[6].split()[1]], capture_output=True)


def in_own_loop(work: Coroutine[Any, Any, str]) -> str:
    """Run `work` to its end in a thread with an event loop of its own, so that any caller can wait for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
