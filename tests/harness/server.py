"""An Interlock server as its own process, to be killed, paused and restarted, and keys to call it with."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.operator import issue_key
from interlock.service.service import open_service
from interlock.service.settings import settings_from
from tests.harness.processes import freeze_tree, kill_tree, pick_port, thaw
from tests.harness.reaper import reaper

INTERLOCK = (sys.executable, "-m", "interlock.cli.main")
READY_SECONDS = 60

live: weakref.WeakSet[InterlockServer] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A principal and the secret that speaks for it."""

    principal: str
    tenant: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries to be made by this principal."""
        return {"Authorization": f"Bearer {self.key}"}


class InterlockServer:
    """`interlock serve` on a port of its own. `start()` before use, `close()` after."""

    def __init__(
        self,
        store: str,
        *,
        policy: Path | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        command: Sequence[str] = INTERLOCK,
    ) -> None:
        self.store = store
        self.port = pick_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = Path(tempfile.mkdtemp(prefix="interlock-server-"))
        self.log_path = self.folder / "log"
        self._command = [*command, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--store", store]
        self._command += ["--policy", str(policy.absolute())] if policy else []
        self._command += arguments
        self._env = clean_env(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[int] = []
        reaper().remove(self.folder)
        live.add(self)

    def start(self, *, ready: bool = True) -> InterlockServer:
        """Start the process; return once `/readyz` answers 200, or at once if `ready` is False."""
        assert not self.running, "it is running already"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._env,
                start_new_session=True,
            )
        reaper().watch(self._process.pid)
        if ready:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, *, seconds: float = READY_SECONDS) -> None:
        """Return once `/readyz` answers 200; raise with the end of the log if it does not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.running:
                raise RuntimeError(f"the server ended while starting; its log ends:\n{self.log()}")
            if self._readyz() == 200:
                return
            time.sleep(0.02)
        raise TimeoutError(f"/readyz is not 200 after {seconds} s; the log ends:\n{self.log()}")

    def kill(self) -> None:
        """SIGKILL it and everything it started, at one moment."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._forget()

    def terminate(self, *, seconds: float = 60) -> int:
        """SIGTERM it, wait for it to finish what it accepted, and return its exit code."""
        assert self._process is not None, "it is not running"
        self.resume()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it ignores SIGTERM for {seconds} s; the log ends:\n{self.log()}") from None
        self._forget()
        return code

    def restart(self, *, ready: bool = True) -> InterlockServer:
        """Terminate it if it is running, and start it again on the same port and store."""
        if self.running:
            self.terminate()
        return self.start(ready=ready)

    def pause(self) -> None:
        """SIGSTOP the whole tree."""
        assert self._process is not None, "it is not running"
        self._frozen = freeze_tree(self._process.pid)

    def resume(self) -> None:
        """SIGCONT what `pause()` stopped."""
        thaw(self._frozen)
        self._frozen = []

    def close(self) -> None:
        """End it now and remove what it left."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        live.discard(self)

    @property
    def running(self) -> bool:
        """Whether the process is alive (paused counts as alive)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the running process."""
        assert self._process is not None, "it is not running"
        return self._process.pid

    def log(self, lines: int = 80) -> str:
        """The end of what it wrote to stdout and stderr, over all its starts."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def create_key(self, name: str, **options: str) -> Key:
        """`create_key` on this server's store."""
        return create_key(self.store, name, **options)

    def _readyz(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        return 0

    def _forget(self) -> None:
        assert self._process is not None
        self._process.wait(30)
        reaper().forget(self._process.pid)
        self._process, self._frozen = None, []


def create_key(
    store: str,
    name: str,
    *,
    kind: str = "person",
    roles: str = "review",
    groups: str = "",
    owner: str | None = None,
    tenant: str = "default",
) -> Key:
    """Make a principal with a key straight in `store`, as `interlock key create` does."""

    async def issue() -> Key:
        async with open_service(settings_from({}, store=store), sweeping=False) as service:
            made = await issue_key(
                service,
                name,
                kind=PrincipalKind(kind),
                roles=tuple(Role(role) for role in roles.split(",")),
                groups=tuple(groups.split(",")) if groups else None,
                owner=owner,
                tenant=tenant,
            )
            return Key(principal=made.principal.id, tenant=made.principal.tenant, key=made.key)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, issue()).result()


def clean_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without Interlock's settings, then `env`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")} | dict(
        env or {}
    )
