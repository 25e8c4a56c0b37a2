"""nginx and haproxy from Debian before a server, each with the configuration that `deploy/` ships.

A machine that lacks one gets Debian's package unpacked beside its other test tools, as root or not. Where that fails,
the tests that need it fail.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal, NamedTuple

from tests.harness.processes import kill_tree, pick_port
from tests.harness.reaper import reaper

Kind = Literal["nginx", "haproxy"]
DEPLOY = Path(__file__).parents[2] / "deploy"
START_SECONDS = 30
FETCH_SECONDS = 300
# Beside the other tools that tests use, and gone with them.
FETCHED = Path(sys.prefix) / "proxies"
_ADVICE = "tests run behind it: apt-get install nginx haproxy"
# What a test cannot wait for is shortened; everything else is as shipped.
SHORTER = {
    "client_header_timeout 10s": "client_header_timeout 2s",
    "timeout http-request 10s": "timeout http-request 2s",
    "send_timeout 30s": "send_timeout 2s",
    "timeout client 30s": "timeout client 4s",
    "check inter 2s": "",
}


class Installed(NamedTuple):
    """A program, and where libraries are that came with it."""

    program: Path
    libraries: tuple[str, ...]

    def env(self) -> dict[str, str]:
        """The environment to run it in."""
        if not self.libraries:
            return dict(os.environ)
        return os.environ | {"LD_LIBRARY_PATH": ":".join(self.libraries)}


class ReverseProxy:
    """One proxy before the server on a port of 127.0.0.1. `start()` before use, `close()` after."""

    def __init__(self, kind: Kind, upstream_port: int) -> None:
        self.port = pick_port()
        self._kind = kind
        self._folder = Path(tempfile.mkdtemp(prefix=f"interlock-{kind}-"))
        reaper().remove(self._folder)
        text = (DEPLOY / ("nginx.conf" if kind == "nginx" else "haproxy.cfg")).read_text()
        for shipped, shorter in SHORTER.items():
            text = text.replace(shipped, shorter)
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        text = text.replace("127.0.0.1:8700", f"127.0.0.1:{upstream_port}")
        text = re.sub(r"pid /run/nginx.pid;", f"pid {self._folder}/pid; daemon off;", text)
        self._config = self._folder / "config"
        self._config.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> ReverseProxy:
        """Start it, and return once it accepts connections."""
        command = {
            "nginx": ["-p", str(self._folder), "-c", str(self._config), "-e", "stderr"],
            "haproxy": ["-f", str(self._config), "-db"],
        }[self._kind]
        here = installed(self._kind)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(here.program), *command],
                env=here.env(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper().watch(self._process.pid)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self
            time.sleep(0.02)
        raise TimeoutError(f"{self._kind} does not start; its log ends:\n{self.log()}")

    def close(self) -> None:
        """End it and remove what it left."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait(30)
            reaper().forget(self._process.pid)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what it wrote."""
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-40:])


@functools.cache
def installed(kind: Kind) -> Installed:
    """The program, as the machine has it or as Debian has it; raises if it is in neither place."""
    found = shutil.which(kind, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is not None:
        return Installed(Path(found), ())
    folder = FETCHED / kind
    if not folder.exists():
        _fetch(kind, folder)
    libraries = sorted({path.parent for path in folder.rglob("*.so*")})
    return Installed(folder / "usr/sbin" / kind, tuple(map(str, libraries)))


def _fetch(kind: Kind, folder: Path) -> None:
    """Unpack Debian's package, and those it needs that are missing, without installing any: that asks for no root."""
    FETCHED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=FETCHED) as scratch:
        unpacked = _unpacked(kind, Path(scratch))
        if not (unpacked / "usr/sbin" / kind).exists():
            raise RuntimeError(f"Debian's {kind} has no /usr/sbin/{kind}; {_ADVICE}")
        with contextlib.suppress(OSError):  # Another process that tests may have been first.
            unpacked.rename(folder)


def _unpacked(kind: Kind, scratch: Path) -> Path:
    """The packages in one folder. Lists and downloads are its own; what is installed, the machine says."""
    (scratch / "lists/partial").mkdir(parents=True)
    (scratch / "cache/archives/partial").mkdir(parents=True)
    options = [
        *("-o", f"Dir::State::Lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache"),
        *("-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-o", "APT::Install-Recommends=0"),
    ]
    _run(kind, "apt-get", *options, "update")
    _run(kind, "apt-get", *options, "install", "--yes", "--download-only", kind)
    for package in (scratch / "cache/archives").glob("*.deb"):
        _run(kind, "dpkg-deb", "-x", str(package), str(scratch / "unpacked"))
    return scratch / "unpacked"


def _run(kind: Kind, *command: str) -> None:
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{kind} is not installed and cannot be fetched: {error}; {_ADVICE}") from None
    if said.returncode:
        told = (said.stderr or said.stdout).strip()[-500:]
        raise RuntimeError(f"{kind} is not installed and cannot be fetched: {told}; {_ADVICE}")
