"""Requests and responses as plain values, made by a server or by an embedded client."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

Headers = tuple[tuple[str, str], ...]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Header names are lower-case; path and query are as on the wire.

    `body` is there already, or `read` fetches it, which is done only for a caller who is known. `root` is the
    prefix under which the application is mounted: links begin with it, `path` does not. `client` is the address
    of the caller, as far as it is known. `made_via` is where a person asks from, said by the part of this process
    that made the request for them (a session of the console); nothing that came over a wire sets it.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes = b""
    # Returns when the client has gone away: a long poll need not outlive its client.
    gone: Callable[[], Awaitable[None]] | None = None
    read: Callable[[], Awaitable[bytes]] | None = None
    root: str = ""
    client: str | None = None
    scheme: str = "http"
    made_via: str | None = None

    async def whole(self) -> Request:
        """The same request with its body."""
        if self.read is None:
            return self
        return msgspec.structs.replace(self, body=await self.read(), read=None)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One response: either `body`, or `stream` for as long as the client stays."""

    status: int
    headers: Headers = ()
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None

    def header(self, name: str) -> str | None:
        """Return the first header called `name` (lower-case), if any."""
        return next((value for key, value in self.headers if key == name), None)


def is_page(path: str) -> bool:
    """Whether a path is for browsers: the console, or the front door that leads to it."""
    return path in ("/", "/console") or path.startswith("/console/")


class NotDecodable(ValueError):
    """Percent-encoding that does not spell text; the message says why."""


def percent_decoded(text: str) -> str:
    """Undo percent-encoding strictly: bad escapes, bytes that are not UTF-8 and U+0000 are refused."""
    if "%" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise NotDecodable("a % must be followed by two hexadecimal digits")
    try:
        decoded = _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), text.encode()).decode()
    except UnicodeError:
        raise NotDecodable("the percent-encoded bytes are not UTF-8") from None
    if "\0" in decoded:
        raise NotDecodable("the character U+0000 cannot be stored")
    return decoded
