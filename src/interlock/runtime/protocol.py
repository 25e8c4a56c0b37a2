"""HTTP/1.1 on one connection, bounded from the first byte.

The parser hands over paths and headers as they arrive, and uvicorn keeps them until they end; an endless one
would fill the memory before anybody could refuse it. Here it is refused once it is too long, and whatever is
not HTTP gets a problem document like every other refusal.
"""

from __future__ import annotations

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


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with a limit on what it keeps of a request before the core sees it."""

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

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, and hang up: where the next request begins, nobody knows."""
        detail = "this is not HTTP/1.1; check the request line, the headers and the length of the body"
        errors = [{"path": "", "reason": "not HTTP/1.1"}]
        self._refuse(problem("invalid_request", detail, members={"errors": errors}))

    def _unsupported_upgrade_warning(self) -> None:
        log.debug("an upgrade of the connection was asked for; the request is served without")

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
