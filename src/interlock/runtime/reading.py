"""Requests out of a connection's bytes: whole, within bounds, each with what the connection must know of it.

What is refused by its head is handed on before its body arrives, and the body is then let pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import httptools

from interlock.api.app import PATH_BYTES_MAX
from interlock.api.http import Request
from interlock.api.problem import Problem, ProblemError, invalid, problem
from interlock.api.wire import HEADER_BYTES_MAX, check_length, read_headers, read_target, too_large
from interlock.codec.strict import Fault

# What may come without an end in sight: of a head, of a chunk's extensions, of the trailers behind the last chunk.
# More than any head within its limits; those on a head that ends are exact.
HEAD_BYTES_MAX = 64 * 1024
NOT_READ = Request(method="?", path="")
_VERSIONS = ("1.0", "1.1")

# The parser is written in C and has no types.
_httptools = cast("Any", httptools)


class Asked(NamedTuple):
    """A request, or what is wrong with one."""

    request: Request
    refused: Problem | None
    keep_alive: bool
    can_chunk: bool = True


class RequestReader:
    """Reads one connection; the parser calls the methods whose names begin with `on_`.

    `ask` gets every request as soon as it is clear how it is to be answered, `go_ahead` is called for a client that
    asks whether to send its body, and `gone` is what a request says when its client left. `is_over` is set after
    the last request that can be told from what follows, `is_between` while nothing of a next one has come.
    """

    def __init__(
        self,
        *,
        ask: Callable[[Asked], None],
        go_ahead: Callable[[], None],
        gone: Callable[[], Awaitable[None]],
        body_bytes_max: int,
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        self.is_over = False
        self.is_between = True
        self._ask = ask
        self._go_ahead = go_ahead
        self._gone = gone
        self._body_bytes_max = body_bytes_max
        self._header_bytes_max = header_bytes_max
        self._parser = _httptools.HttpRequestParser(self)
        self._steps = 0
        self._pending_bytes = 0
        self._is_in_head = True
        self._is_old = False
        # Of the request that is being read; there is no head if nobody wants the body.
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._head: Request | None = None
        self._body: bytes | bytearray = b""
        self._body_bytes = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take another piece of input, a small one; what goes on and on and comes to nothing is refused."""
        if self.is_over:
            return
        steps = self._steps
        try:
            self._parse(data)
        except _httptools.HttpParserCallbackError:
            raise  # Ours, and not the client's: whoever serves the connection tears it and says so.
        except _httptools.HttpParserError:
            if not self.is_over:
                self._refuse_all(_not_http())
        self._pending_bytes = self._pending_bytes + len(data) if self._steps == steps else 0
        if self._pending_bytes > HEAD_BYTES_MAX and not self.is_over:
            self._refuse_all(_too_long(is_path=not self._pairs and len(self._url) > PATH_BYTES_MAX))

    def _parse(self, data: bytes | memoryview) -> None:
        """Nothing but HTTP/1.1 is spoken here, so a wish to go over to something else is not heard.

        The parser passes over the body of such a request: it is read again without the wish. CONNECT is the end.
        """
        left = [data]
        while left:
            piece = left.pop()
            try:
                self._parser.feed_data(piece)
            except _httptools.HttpParserUpgrade as wish:
                if not self._is_to_be_read_again():
                    self.is_over = True
                    return
                left.append(memoryview(piece)[wish.args[0] :])
                left.append(self._without_upgrade())
                self._parser = _httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._url, self._pairs, self._body, self._body_bytes = b"", [], b"", 0
        self._is_in_head = True
        self.is_between = False

    def on_url(self, url: bytes) -> None:
        """Some more of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, whole."""
        self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """Judge the head, unless it comes after the last one."""
        if self.is_over or self._is_to_be_read_again():
            return
        self._steps += 1
        method = self._parser.get_method().decode("latin-1")
        self.is_over = method == "CONNECT"
        try:
            self._head = head = self._read_head(method)
            check_length(head.headers, self._body_bytes_max)
        except ProblemError as refused:
            self._refuse(self._head or Request(method=method, path=""), refused.problem)
        except (_httptools.HttpParserInvalidURLError, _TwoReadings):
            self._refuse_all(_not_http())
        else:
            self._is_in_head = False
            expected = head.headers.get("expect")
            if expected is not None and expected.lower() == "100-continue" and not self._is_old:
                self._go_ahead()

    def on_body(self, body: bytes) -> None:
        """Some more of the body, if anybody wants it; thousands of small pieces take no more room than one."""
        self._steps += 1
        if self._head is None:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            self._refuse(self._head, too_large(self._body_bytes_max).problem)
        elif not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_to_be_read_again():
            return
        self._steps += 1
        self._is_in_head = self.is_between = True
        # Nothing of it stays here: a client that is silent from now on must not cost what it last sent.
        head, self._head, body, self._body = self._head, None, self._body, b""
        if head is not None:
            self._ask(self._asked(_with_body(head, bytes(body)) if body else head, None))

    def _is_to_be_read_again(self) -> bool:
        return self._parser.should_upgrade() and any(name.lower() == b"upgrade" for name, _ in self._pairs)

    def _without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        first = self._parser.get_method() + b" " + self._url + b" HTTP/" + version
        kept = (name + b": " + value for name, value in self._pairs if name.lower() != b"upgrade")
        return b"\r\n".join((first, *kept, b"", b""))

    def _read_head(self, method: str) -> Request:
        version = self._parser.get_http_version()
        self._is_old = version != "1.1"
        headers = read_headers(self._pairs, self._header_bytes_max)
        coding = headers.get("transfer-encoding")
        if version not in _VERSIONS or (coding is not None and (self._is_old or coding.lower() != "chunked")):
            raise _TwoReadings
        if len(self._url) > PATH_BYTES_MAX:
            raise ProblemError(_too_long(is_path=True))
        if "host" not in headers and not self._is_old:
            raise invalid(Fault("header/host", "is missing; HTTP/1.1 asks for it"))
        target = _httptools.parse_url(self._url)
        path, query = read_target(target.path or b"", target.query or b"")
        return Request(method=method, path=path, query=query, headers=headers, gone=self._gone)

    def _asked(self, request: Request, refused: Problem | None) -> Asked:
        if self._is_old or not self._parser.should_keep_alive():
            self.is_over = True
        return Asked(request, refused, not self.is_over, not self._is_old)

    def _refuse(self, head: Request, refused: Problem) -> None:
        """Refuse without the body and let the body pass, unless the client may have kept it to itself."""
        self._head, self._body, self._is_in_head = None, b"", False
        self.is_over |= any(name.lower() == b"expect" for name, _ in self._pairs)
        self._ask(self._asked(head, refused))

    def _refuse_all(self, refused: Problem) -> None:
        """Where a next request would begin, nobody knows. One that was refused by its head has its answer."""
        self.is_over = True
        is_answered = self._head is None and not self._is_in_head
        self._head, self._body = None, b""
        if not is_answered:
            self._ask(Asked(NOT_READ, refused, keep_alive=False))


class _TwoReadings(Exception):
    """Another reader of this head could see the body end elsewhere, or no HTTP/1 at all."""


def _with_body(head: Request, body: bytes) -> Request:
    return Request(
        method=head.method,
        path=head.path,
        query=head.query,
        headers=head.headers,
        body=body,
        gone=head.gone,
    )


def _not_http() -> Problem:
    detail = "this is not HTTP/1.1; check the request line, the headers and the length of the body"
    errors = [{"path": "", "reason": "not HTTP/1.1"}]
    return problem("invalid_request", detail, members={"errors": errors})


def _too_long(*, is_path: bool) -> Problem:
    code, what = ("uri_too_long", "the path is") if is_path else ("headers_too_large", "the headers are")
    limit_bytes = PATH_BYTES_MAX if is_path else HEADER_BYTES_MAX
    detail = f"{what} far too long; the limit is {limit_bytes} bytes"
    return problem(code, detail, members={"limit_bytes": limit_bytes})
