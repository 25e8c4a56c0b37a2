"""`oidc-provider-mock` in a process of its own: an identity provider that others wrote, with a page to sign in on."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2

from tests.harness.processes import pick_port
from tests.harness.reaper import reaper

READY_SECONDS = 60
_ROOT = Path(__file__).parents[2]


class MockProvider:
    """`start()` before use, `close()` after. `set_account("s1", groups=[…])` says what is known of a subject."""

    def __init__(self) -> None:
        self.port = pick_port()
        self.issuer = f"http://127.0.0.1:{self.port}"

    def start(self) -> MockProvider:
        """Start it, and return once it answers."""
        command = [sys.executable, "-W", "ignore", "-m", "tests.harness.mock_provider", str(self.port)]
        self._process = subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.DEVNULL)
        reaper().watch(self._process.pid)
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            assert self._process.poll() is None, "the provider ended while starting"
            assert time.monotonic() < deadline, "the provider does not answer"
            time.sleep(0.05)
        return self

    def close(self) -> None:
        reaper().end(self._process)

    def set_account(self, subject: str, **claims: object) -> None:
        httpx2.put(f"{self.issuer}/users/{subject}", json=claims).raise_for_status()

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.issuer}/.well-known/openid-configuration").status_code == 200
        except httpx2.TransportError:
            return False


def main() -> None:
    """Serve until killed. Its pages want a style sheet from another machine, which they are not given."""
    import os

    from flask import Response
    from oidc_provider_mock import app
    from werkzeug.serving import make_server

    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    provider = app(require_nonce=True)

    @provider.after_request
    def alone(response: Response) -> Response:  # pyright: ignore[reportUnusedFunction]
        if response.mimetype == "text/html":
            response.set_data(re.sub(r"<link[^>]*>", "", response.get_data(as_text=True)))
        return response

    make_server("127.0.0.1", int(sys.argv[1]), provider, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
