"""A connection that sends one request at a time and waits for its answer: a caller that costs next to nothing."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

_LENGTH = b"content-length:"


class Refused(Exception):
    """The server answered with something else than 200."""


class Line:
    """One kept connection to a server."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        told = {"Host": host, "Content-Type": "application/json", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in told.items())

    def post(self, path: str, document: Any) -> Any:
        """The answer's document, or `Refused`."""
        body = msgspec.json.encode(document)
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)
        status, answer = self._answer()
        if status != 200:
            raise Refused(f"{status}: {answer.decode(errors='replace')}")
        return msgspec.json.decode(answer)

    def _answer(self) -> tuple[int, bytes]:
        data = self._more()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        lines = data[:end].split(b"\r\n")
        length = next(int(line[len(_LENGTH) :]) for line in lines if line.lower().startswith(_LENGTH))
        end += 4
        while len(data) < end + length:
            data += self._more()
        return int(lines[0].split()[1]), data[end:]

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data
