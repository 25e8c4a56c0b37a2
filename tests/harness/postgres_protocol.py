"""As much of PostgreSQL's protocol as it takes to see a COMMIT go by, and its answer come back."""

from __future__ import annotations

import asyncio
import re
import struct
from dataclasses import dataclass, field

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
SYNC = b"S\x00\x00\x00\x04"
_COMMIT = re.compile(rb"(?:^|;)\s*(?:COMMIT|END)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Message:
    """One framed message: its type letter and what follows the length."""

    kind: bytes
    body: bytes

    def encode(self) -> bytes:
        """Its bytes on the wire."""
        return self.kind + struct.pack("!I", len(self.body) + 4) + self.body

    @property
    def tag(self) -> bytes:
        """The command tag of a CommandComplete, empty for any other message."""
        return self.body.rstrip(b"\x00") if self.kind == b"C" else b""


async def read_message(stream: asyncio.StreamReader) -> Message:
    """The next message after the start-up phase."""
    kind, length = struct.unpack("!cI", await stream.readexactly(5))
    return Message(kind, await stream.readexactly(length - 4))


async def read_opening(stream: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next packet of the start-up phase, which has no type letter: its code and its bytes."""
    length, code = struct.unpack("!II", await stream.readexactly(8))
    return code, struct.pack("!II", length, code) + await stream.readexactly(length - 8)


@dataclass(slots=True)
class CommitWatch:
    """Recognises the message that makes the server commit, in the simple and in the extended protocol."""

    _statements: dict[bytes, bool] = field(default_factory=dict[bytes, bool])
    _portals: dict[bytes, bool] = field(default_factory=dict[bytes, bool])

    def commits(self, message: Message) -> bool:
        """Whether `message` is a COMMIT: a simple query, or the Execute of a statement parsed as one."""
        first, _, rest = message.body.partition(b"\x00")
        match message.kind:
            case b"Q":
                return bool(_COMMIT.search(first))
            case b"P":
                self._statements[first] = bool(_COMMIT.search(rest.partition(b"\x00")[0]))
            case b"B":
                self._portals[first] = self._statements.get(rest.partition(b"\x00")[0], False)
            case b"E":
                return self._portals.get(first, False)
            case _:
                pass
        return False


def warning(text: str) -> bytes:
    """A NoticeResponse of severity WARNING."""
    return _response(b"N", {b"S": "WARNING", b"V": "WARNING", b"C": "01000", b"M": text})


def goodbye() -> bytes:
    """The ErrorResponse with which a server that an administrator ends leaves its client."""
    text = "terminating connection due to administrator command"
    return _response(b"E", {b"S": "FATAL", b"V": "FATAL", b"C": "57P01", b"M": text})


def _response(kind: bytes, fields: dict[bytes, str]) -> bytes:
    body = b"".join(letter + value.encode() + b"\x00" for letter, value in fields.items()) + b"\x00"
    return Message(kind, body).encode()
