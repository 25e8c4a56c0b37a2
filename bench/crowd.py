"""Many connections to one server, driven by a client that costs it next to nothing.

A client takes its processor time from what it measures: a store's process, the thread that commits. This one sends
bytes that were made before, looks only for the end of an answer while the clock runs, and reads what the answers
say afterwards. A call costs it 10 µs, where one on an event loop takes 30 to 50.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.harness.load import Answer, Request, parse

_PIECE_BYTES = 64 * 1024
_SILENT_SECONDS = 60.0


class Burst(NamedTuple):
    """The answers in the requests' order, and how long all of them took."""

    answers: list[Answer]
    seconds: float

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.answers) / self.seconds


class Crowd:
    """Connections, kept from burst to burst: to open them is no part of what is measured."""

    def __init__(self, url: str, connections: int) -> None:
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._poll = select.epoll()
        self._lines: dict[int, socket.socket] = {}
        for _ in range(connections):
            line = socket.create_connection(address)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines[line.fileno()] = line
            self._poll.register(line, select.EPOLLIN)

    def sent(self, requests: Sequence[Request]) -> Burst:
        """Send them, each connection the next one as soon as it is free.

        Ends the benchmark if one is answered with anything but success.
        """
        encoded = [request.encode() for request in requests]
        began = time.perf_counter()
        raw = self._exchanged(encoded)
        seconds = time.perf_counter() - began
        answers = [_expected(parse(bytearray(data))) for data in raw]
        return Burst(answers, seconds)

    def close(self) -> None:
        self._poll.close()
        for line in self._lines.values():
            line.close()

    def _exchanged(self, encoded: Sequence[bytes]) -> list[bytes]:
        raw = [b""] * len(encoded)
        turns = iter(range(len(encoded)))
        at: dict[int, int] = {}
        for number, turn in zip(self._lines, turns, strict=False):
            at[number] = turn
            self._lines[number].sendall(encoded[turn])
        while at:
            ready = self._poll.poll(_SILENT_SECONDS)
            if not ready:
                raise SystemExit(f"the server has not answered for {_SILENT_SECONDS:.0f} s")
            for number, _ in ready:
                line, turn = self._lines[number], at[number]
                data = line.recv(_PIECE_BYTES)
                if not data:
                    raise SystemExit("the server closed a connection of the benchmark")
                raw[turn] += data
                if _is_whole(raw[turn]):
                    del at[number]
                    if (following := next(turns, None)) is not None:
                        at[number] = following
                        line.sendall(encoded[following])
        return raw


def _is_whole(data: bytes) -> bool:
    """Whether an answer is there to its end; all of those that are measured tell their length."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    named = data.lower().find(b"\r\ncontent-length:", 0, end)
    if named < 0:
        raise SystemExit(f"an answer does not tell its length: {data[:end]!r}")
    length = int(data[named + len("\r\ncontent-length:") : data.index(b"\r\n", named + 2)])
    return len(data) >= end + 4 + length


def _expected(answer: Answer | None) -> Answer:
    if answer is None or answer.status not in (200, 201, 202):
        raise SystemExit(f"an answer was not what was asked for: {answer}")
    return answer
