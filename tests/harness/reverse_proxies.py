"""nginx and haproxy from Debian before one server or two, each with the configuration that `deploy/` ships."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from tests.harness.debian_programs import installed
from tests.harness.processes import listens, pick_port
from tests.harness.reaper import reaper

Kind = Literal["nginx", "haproxy"]
DEPLOY = Path(__file__).parents[2] / "deploy"
START_SECONDS = 30
_NGINX_SPOOLS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
# What a test cannot wait for, or counts the requests of, is shortened; everything else is as shipped.
SHORTER = {
    "client_header_timeout 10s": "client_header_timeout 2s",
    "timeout http-request 10s": "timeout http-request 2s",
    "send_timeout 30s": "send_timeout 2s",
    "timeout client 30s": "timeout client 4s",
    "check inter 2s fall 2 rise 1": "",
}


class ReverseProxy:
    """One proxy before servers on ports of 127.0.0.1. `start()` before use, `close()` after."""

    def __init__(self, kind: Kind, *upstream_ports: int, as_shipped: bool = False) -> None:
        self.port = pick_port()
        self._kind = kind
        self._folder = Path(tempfile.mkdtemp(prefix=f"interlock-{kind}-"))
        reaper().remove(self._folder)
        text = (DEPLOY / ("nginx.conf" if kind == "nginx" else "haproxy.cfg")).read_text()
        for shipped, shorter in () if as_shipped else SHORTER.items():
            text = text.replace(shipped, shorter)
        if len(upstream_ports) == 1:  # As the files say for one server.
            text = re.sub(r"^ +server (two|127\.0\.0\.1:8701)\b.*\n", "", text, flags=re.MULTILINE)
        for shipped, port in zip((8080, 8700, 8701), (self.port, *upstream_ports), strict=False):
            text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{port}")
        text = re.sub(r"pid /run/nginx.pid;", f"pid {self._folder}/pid; daemon off;", text)
        # Debian's own places for what nginx spools belong to an installed package, and to root.
        spools = (f"{what}_temp_path {self._folder}/{what};" for what in _NGINX_SPOOLS)
        text = text.replace("http {\n", "\n".join(("http {", *spools, "")), 1) if kind == "nginx" else text
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
        if listens(self._process, self.port, START_SECONDS):
            return self
        raise TimeoutError(f"{self._kind} does not start; its log ends:\n{self.log()}")

    def close(self) -> None:
        """End it and remove what it left."""
        if self._process is not None:
            reaper().end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what it wrote."""
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-40:])
