"""Raw bytes to a server, and what comes back until it hangs up."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from tests.harness.load import Answer, parse

PATIENCE_SECONDS = 60


def exchange(url: str, chunks: Iterable[bytes]) -> Answer | None:
    """Send `chunks` for as long as the server takes them; its first answer, or None if it hung up instead."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    with socket.create_connection((host, port), timeout=PATIENCE_SECONDS) as line:
        with contextlib.suppress(ConnectionError):
            for chunk in chunks:
                line.sendall(chunk)
        return _answer(line)


def _answer(line: socket.socket) -> Answer | None:
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := line.recv(65536):
            received += data
            if (answer := parse(received)) is not None:
                return answer
    return None
