"""HTTP/1.1 on one connection, bounded from the first byte to the last.

The parser hands over paths and headers as they arrive, and uvicorn keeps them until they end; an endless one
would fill the memory before anybody could refuse it. Here it is refused once it is too long, and whatever is
not HTTP gets a problem document like every other refusal.

A client that takes nothing of what is waiting for it, for `stalled_seconds`, is cut off: to close politely would
mean to wait until it reads. A stream's client comes back with the last id that it has read.
"""

from __future__ import annotations

import asyncio
import logging

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from interlock.api.app import PATH_BYTES_MAX
from interlock.api.asgi import HEADER_BYTES_MAX
from interlock.api.http import Response
from interlock.api.problem import Problem, problem, problem_response

log = logging.getLogger(__name__)

_REASONS = {400: b"Bad Request", 414: b"URI Too Long", 431: b"Request Header Fields Too Large"}
# Generous, because input comes in pieces of up to half of this; the core's own limits are exact.
HEAD_BYTES_MAX = 512 * 1024
STALLED_SECONDS = 30.0


def protocol_for(seconds: float) -> type[BoundedProtocol]:
    """The protocol that lets a client read nothing for so long."""

    class Chosen(BoundedProtocol):
        stalled_seconds = seconds

    return Chosen


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on what it keeps of a request, and on how long of a response."""

    stalled_seconds = STALLED_SECONDS

    _stall: asyncio.TimerHandle | None = None
    _is_in_head = True
    _came_on = False
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take another piece of input; a head that goes on and on is refused."""
        self._came_on = False
        super().data_received(data)
        is_same_head = self._is_in_head and not self._came_on
        self._head_bytes = self._head_bytes + len(data) if is_same_head else 0
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(_too_long(is_path=not self.headers and len(self.url) > PATH_BYTES_MAX))

    def on_headers_complete(self) -> None:
        """The core judges from here on."""
        self._is_in_head, self._came_on = False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is the head of another request."""
        self._is_in_head, self._came_on = True, True
        super().on_message_complete()

    def pause_writing(self) -> None:
        """More is waiting than the client takes; see whether it takes anything."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """It reads."""
        self._end_stall()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to wait for."""
        self._end_stall()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, and hang up: where the next request begins, nobody knows."""
        detail = "this is not HTTP/1.1; check the request line, the headers and the length of the body"
        errors = [{"path": "", "reason": "not HTTP/1.1"}]
        self._refuse(problem("invalid_request", detail, members={"errors": errors}))

    def _unsupported_upgrade_warning(self) -> None:
        log.debug("an upgrade of the connection was asked for; the request is served without")

    def _expect_reading(self) -> None:
        unsent_bytes = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.stalled_seconds, self._judge_reading, unsent_bytes)

    def _judge_reading(self, before_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < before_bytes:
            self._expect_reading()
        else:
            log.info("a client read nothing for %s s; its connection is cut", self.stalled_seconds)
            self.transport.abort()

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _refuse(self, refused: Problem) -> None:
        self.transport.write(_encoded(problem_response(refused)))
        self.transport.close()


def _too_long(*, is_path: bool) -> Problem:
    code, what = ("uri_too_long", "the path is") if is_path else ("headers_too_large", "the headers are")
    limit_bytes = PATH_BYTES_MAX if is_path else HEADER_BYTES_MAX
    detail = f"{what} far too long; the limit is {limit_bytes} bytes"
    return problem(code, detail, members={"limit_bytes": limit_bytes})


def _encoded(response: Response) -> bytes:
    lines = [b"HTTP/1.1 %d %s" % (response.status, _REASONS[response.status])]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in response.headers]
    lines += [b"content-length: %d" % len(response.body), b"connection: close", b"", b""]
    return b"\r\n".join(lines) + response.body
