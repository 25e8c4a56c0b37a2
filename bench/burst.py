"""Bursts of requests over many connections, timed; and the server without a store to send them to."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from urllib.request import urlopen

from bench.crowd import Burst, Crowd
from tests.harness.load import Request
from tests.harness.processes import pick_port


def burst(url: str, requests: Sequence[Request], connections: int) -> Burst:
    """Send them over that many connections. Ends the benchmark if one is answered with anything but success."""
    with closing(Crowd(url, connections)) as crowd:
        return crowd.sent(requests)


def without_a_store() -> AbstractContextManager[str]:
    """The URL of the same server on the same routes, with the kernel and the store left out."""
    return _served("bench.null_server")


def without_a_memory() -> AbstractContextManager[str]:
    """The URL of the same server with its kernel and its rules, with the store alone left out."""
    return _served("bench.forgetful_server")


@contextmanager
def _served(module: str) -> Generator[str]:
    port = pick_port()
    process = subprocess.Popen([sys.executable, "-m", module, str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            urlopen(f"{url}/healthz").read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server without a store did not start")
