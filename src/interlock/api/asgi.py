"""The adapter between an ASGI server and the core.

It reads the body within limits (refused by `Content-Length` before a byte is read, and while reading if there
is none), sends the response, and stops a stream when its client leaves. A request that was read whole is
answered to the end, even if the client goes away: a decision in flight is finished, not torn off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeAlias

from interlock.api.app import App
from interlock.api.http import Request, Response
from interlock.api.problem import ProblemError, invalid, problem
from interlock.codec.strict import Fault

BODY_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 32 * 1024
DRAIN_SECONDS_MAX = 30

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# Sent twice, these could mean two things to two readers.
_ONCE = frozenset(
    {b"authorization", b"x-api-key", b"idempotency-key", b"content-type", b"content-length", b"x-request-id"}
)


class _Gone(Exception):
    """The client left before its request was whole."""


class AsgiApp:
    """An ASGI application. `opening` yields the `App`, and closes it when the server stops."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[App[Any, Any]]],
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        """Open nothing yet: that happens when the server says that its loop runs."""
        self._opening = opening
        self._body_bytes_max = body_bytes_max
        self._header_bytes_max = header_bytes_max
        self._app: App[Any, Any] | None = None
        self._answering: set[asyncio.Task[Response]] = set()
        self._streams: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's lifespan or one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            raise ValueError(f"{scope['type']} is not served here; only HTTP is")

    def end_streams(self) -> None:
        """End every open stream: a server that is shutting down would otherwise wait for them."""
        for stream in self._streams:
            stream.cancel()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as opened:
            try:
                self._app = await opened.enter_async_context(self._opening())
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.end_streams()
            if self._answering:
                await asyncio.wait(self._answering, timeout=DRAIN_SECONDS_MAX)
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise RuntimeError("a request came before the lifespan event; run the server with lifespan on")
        head = Request(method=scope["method"], path="")
        try:
            head = self._head(scope, receive)
            body = await _read_body(head, receive, self._body_bytes_max)
        except ProblemError as refused:
            await _send(self._app.refuse(head, refused.problem), send)
            return
        except _Gone:
            return
        await self._answer(self._app, _with_body(head, body), receive, send)

    async def _answer(self, app: App[Any, Any], request: Request, receive: Receive, send: Send) -> None:
        response = await self._finish(app, request)
        if response.stream is None:
            await _send(response, send)
        else:
            try:
                await self._stream(response, response.stream, receive, send)
            except Exception as error:
                app.report(error, request)
                raise

    async def _finish(self, app: App[Any, Any], request: Request) -> Response:
        if request.method in ("GET", "HEAD"):
            return await app.respond(request)
        answering = asyncio.get_running_loop().create_task(app.respond(request))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        return await asyncio.shield(answering)

    async def _stream(
        self, response: Response, stream: AsyncIterator[bytes], receive: Receive, send: Send
    ) -> None:
        """Send until the stream ends, the client leaves, the server stops, or the stream breaks."""
        sending = asyncio.create_task(_send_chunks(response, stream, send))
        leaving = asyncio.create_task(_until_gone(receive))
        self._streams.add(sending)
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sending)
            for task in (sending, leaving):
                task.cancel()
            outcome, _ = await asyncio.gather(sending, leaving, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome  # without a last message the server cuts the connection: the client sees it torn
        await _told(send, {"type": "http.response.body", "body": b""})

    def _head(self, scope: Scope, receive: Receive) -> Request:
        headers = read_headers(scope["headers"], self._header_bytes_max)
        raw_path: bytes = scope.get("raw_path") or _raw_path(scope["path"])
        query: bytes = scope.get("query_string", b"")
        if not raw_path.isascii() or not query.isascii():
            raise invalid(Fault("path", "holds bytes beyond ASCII; percent-encode them"))
        return Request(
            method=scope["method"],
            path=raw_path.decode(),
            query=query.decode(),
            headers=headers,
            gone=lambda: _until_gone(receive),
        )


def read_headers(pairs: Iterable[tuple[bytes, bytes]], bytes_max: int = HEADER_BYTES_MAX) -> dict[str, str]:
    """Join repeated headers by commas, and refuse too many of them or two of one that must be single."""
    headers: dict[str, str] = {}
    size = 0
    for name, value in pairs:
        size += len(name) + len(value)
        lower = name.lower()
        key, text = lower.decode("latin-1"), value.decode("latin-1")
        if key in headers:
            if lower in _ONCE:
                raise invalid(Fault(f"header/{key}", "appears twice; send it once"))
            text = f"{headers[key]}, {text}"
        headers[key] = text
    if size > bytes_max:
        detail = f"the headers are larger than {bytes_max} bytes together; send fewer or shorter ones"
        raise ProblemError(problem("headers_too_large", detail, members={"limit_bytes": bytes_max}))
    return headers


async def _read_body(head: Request, receive: Receive, bytes_max: int) -> bytes:
    announced = head.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()):
        raise invalid(Fault("header/content-length", "must be a number of bytes"))
    if len(announced) > 15 or int(announced) > bytes_max:
        raise _too_large(bytes_max)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > bytes_max:
            raise _too_large(bytes_max)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _raw_path(path: str) -> bytes:
    from urllib.parse import quote  # only for a server that keeps the raw path to itself

    return quote(path).encode()


def _too_large(bytes_max: int) -> ProblemError:
    detail = f"the body is larger than {bytes_max} bytes; send less, or a reference to it and its hash"
    return ProblemError(problem("too_large", detail, members={"limit_bytes": bytes_max}))


def _with_body(head: Request, body: bytes) -> Request:
    return Request(
        method=head.method,
        path=head.path,
        query=head.query,
        headers=head.headers,
        body=body,
        gone=head.gone,
    )


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(response: Response) -> Message:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    return {"type": "http.response.start", "status": response.status, "headers": headers}


async def _told(send: Send, message: Message) -> bool:
    """Send a message; False if the client has left, so that there is nobody to tell."""
    try:
        await send(message)
    except OSError:
        return False
    return True


async def _send(response: Response, send: Send) -> None:
    if await _told(send, _start(response)):
        await _told(send, {"type": "http.response.body", "body": response.body})


async def _send_chunks(response: Response, stream: AsyncIterator[bytes], send: Send) -> None:
    try:
        if not await _told(send, _start(response)):
            return
        async for chunk in stream:
            if not await _told(send, {"type": "http.response.body", "body": chunk, "more_body": True}):
                return
    finally:
        close: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
        if close is not None:
            await close()
