"""Bursts of requests over many connections, timed; and the server without a store to send them to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple
from urllib.request import urlopen

from tests.harness.load import Answer, Connection, Request, drive, fire
from tests.harness.processes import pick_port


class Burst(NamedTuple):
    """The answers in the requests' order, and how long all of them took."""

    answers: list[Answer]
    seconds: float

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.answers) / self.seconds


class Crowd:
    """So many connections to one server, kept from burst to burst: to open them is no part of what is measured."""

    def __init__(self, url: str, connections: int) -> None:
        self._runner = asyncio.Runner()
        self._lines = [Connection(url) for _ in range(connections)]

    def sent(self, requests: Sequence[Request]) -> Burst:
        """Send them. Ends the benchmark if one is answered with anything but success."""
        return self._runner.run(self._send([request.encode() for request in requests]))

    def close(self) -> None:
        for line in self._lines:
            line.close()
        self._runner.close()

    async def _send(self, encoded: Sequence[bytes]) -> Burst:
        await asyncio.gather(*(line.dial() for line in self._lines))
        began = time.perf_counter()
        answers = await drive(self._lines, encoded)
        return _expected(Burst(answers, time.perf_counter() - began))


def burst(url: str, requests: Sequence[Request], connections: int) -> Burst:
    """Send them over so many connections. Ends the benchmark if one is answered with anything but success."""
    began = time.perf_counter()
    answers = asyncio.run(fire(url, requests, connections=connections))
    return _expected(Burst(answers, time.perf_counter() - began))


def _expected(made: Burst) -> Burst:
    wrong = [answer for answer in made.answers if answer.status not in (200, 201, 202)]
    if wrong:
        raise SystemExit(f"{len(wrong)} answers were not what was asked for: {wrong[0]}")
    return made


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
