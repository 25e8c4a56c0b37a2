"""Requests out of a connection's bytes: whole, within bounds, each with what the connection must know of it.

What is refused by its head is handed on before its body arrives, and the body is then let pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import httptools

from interlock.api.app import PATH_BYTES_MAX
from interlock.api.http import Request
from interlock.api.problem import Problem, ProblemError, problem
from interlock.api.wire import HEADER_BYTES_MAX, check_length, read_headers, read_target, too_large

# Generous, because input comes in pieces of up to half of this; the limits on a head that ends are exact.
HEAD_BYTES_MAX = 512 * 1024
_NOT_READ = Request(method="?", path="")

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
    the last request that can be told from what follows.
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
        self._ask = ask
        self._go_ahead = go_ahead
        self._gone = gone
        self._body_bytes_max = body_bytes_max
        self._header_bytes_max = header_bytes_max
        self._parser = _httptools.HttpRequestParser(self)
        self._heads = 0
        self._head_bytes = 0
        self._is_in_head = True
        # Of the request that is being read; there is no head if nobody wants the body.
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._head: Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take another piece of input; a head that goes on and on is refused."""
        if self.is_over:
            return
        heads = self._heads
        try:
            self._parse(data)
        except _httptools.HttpParserError:
            if not self.is_over:
                self._refuse_all(_not_http())
        self._head_bytes = self._head_bytes + len(data) if self._is_in_head and self._heads == heads else 0
        if self._head_bytes > HEAD_BYTES_MAX and not self.is_over:
            self._refuse_all(_too_long(is_path=not self._pairs and len(self._url) > PATH_BYTES_MAX))

    def _parse(self, data: bytes) -> None:
        """Nothing but HTTP/1.1 is spoken here, so a wish to go over to something else is not heard.

        The parser passes over the body of such a request: it is read again without the wish. CONNECT is the end.
        """
        left = deque((memoryview(data),))
        while left:
            piece = left.popleft()
            try:
                self._parser.feed_data(piece)
            except _httptools.HttpParserUpgrade as wish:
                if not self._is_to_be_read_again():
                    self.is_over = True
                    return
                left.appendleft(piece[wish.args[0] :])
                left.appendleft(memoryview(self._without_upgrade()))
                self._parser = _httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        """Another request begins."""
        self._url, self._pairs, self._body, self._body_bytes = b"", [], [], 0
        self._is_in_head = True

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
        self._is_in_head = False
        self._heads += 1
        self._head = head = Request(method=self._parser.get_method().decode("latin-1"), path="")
        try:
            self._head = head = self._read_head(head.method)
            check_length(head.headers, self._body_bytes_max)
        except ProblemError as refused:
            self._refuse(head, refused.problem)
            return
        if head.headers.get("expect", "").lower() == "100-continue":
            self._go_ahead()

    def on_body(self, body: bytes) -> None:
        """Some more of the body, if anybody wants it."""
        if self._head is None:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            self._refuse(self._head, too_large(self._body_bytes_max).problem)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_to_be_read_again():
            return
        self._is_in_head = True
        head, self._head = self._head, None
        if head is not None:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._ask(self._asked(_with_body(head, body), None))

    def _is_to_be_read_again(self) -> bool:
        return self._parser.should_upgrade() and any(name.lower() == b"upgrade" for name, _ in self._pairs)

    def _without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        first = self._parser.get_method() + b" " + self._url + b" HTTP/" + version
        kept = (name + b": " + value for name, value in self._pairs if name.lower() != b"upgrade")
        return b"\r\n".join((first, *kept, b"", b""))

    def _read_head(self, method: str) -> Request:
        headers = read_headers(self._pairs, self._header_bytes_max)
        target = _httptools.parse_url(self._url)
        path, query = read_target(target.path or b"", target.query or b"")
        return Request(method=method, path=path, query=query, headers=headers, gone=self._gone)

    def _asked(self, request: Request, refused: Problem | None) -> Asked:
        is_old = self._parser.get_http_version() == "1.0"
        keep_alive = not (is_old or self.is_over) and self._parser.should_keep_alive()
        return Asked(request, refused, keep_alive, can_chunk=not is_old)

    def _refuse(self, head: Request, refused: Problem) -> None:
        """Refuse without the body and let the body pass, unless the client may have kept it to itself."""
        self._head = None
        self.is_over |= any(name.lower() == b"expect" for name, _ in self._pairs)
        self._ask(self._asked(head, refused))

    def _refuse_all(self, refused: Problem) -> None:
        """Where a next request would begin, nobody knows."""
        self.is_over = True
        self._ask(Asked(_NOT_READ, refused, keep_alive=False))


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
