"""Interlock as one ASGI application, run by `interlock serve` or mounted inside another application.

The key is checked as soon as the head of a request has arrived. Only then is the body read, within a size, a deadline
and one bound over all unfinished bodies. A client that disconnects ends its long poll or stream, and one that stops
reading is cut off. A decision that has begun is completed, whether or not its client is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    MutableMapping,
)
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import quote

from interlock.api.app import App
from interlock.api.assembly import assemble, assemble_metrics, facts_of
from interlock.api.heads import (
    check_framing,
    check_length,
    read_headers,
    read_target,
    too_large,
)
from interlock.api.problem import ProblemError, invalid, problem
from interlock.console.app import Console
from interlock.kernel.codec.strict import JsonFault
from interlock.rooms.events.addresses import Allowed, read_networks
from interlock.service.keyring import Known
from interlock.service.logs import Form, Level, Log
from interlock.service.metrics import Counter, Registry
from interlock.service.operator import Greeting, activate_policy_file, greet
from interlock.service.service import Service, open_service
from interlock.service.settings import UNIX_PEER, Settings, settings_from
from interlock.wire.http import Request, Response, is_page

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

# A long answer goes out in pieces, so that a client that does not take them is noticed.
_PIECE_BYTES = 64 * 1024
_HEARING_SECONDS = 3.0
_HEARING_BYTES_MAX = 16 * 1024 * 1024
_HEARING_MAX = 128  # connections at once; each may take some hundred kilobytes of granian's buffers
_ENDS_A_LINE = re.compile(r"[\x00\r\n]")
_NOT_OPEN = (
    "Interlock is not open: run it with its lifespan, or enter `app.opened()` in the lifespan of the application "
    "that mounts it"
)


class Torn(Exception):
    """An answer cannot be finished: raised so that the server cuts the connection, and nobody takes it for whole."""


def create_app(settings: Settings | None = None) -> InterlockApp:
    """The application; without settings, as the environment and the configuration file say."""
    return InterlockApp(settings_from() if settings is None else settings)


class InterlockApp:
    """One Interlock behind ASGI.

    A server that runs lifespans opens and closes it. An application that mounts it does so itself, in its own
    lifespan, with `opened`; frameworks do not run the lifespan of what is mounted.
    """

    def __init__(self, settings: Settings, log: Log | None = None) -> None:
        self.settings = settings
        level, form = cast("Level", settings.log_level), cast("Form", settings.log_format)
        self.log = Log(form=form, level=level) if log is None else log
        self._trusted = _Trusted.read(settings.trusted_proxies)
        self._root = settings.root_path
        self._open: _Open | None = None

    @contextlib.asynccontextmanager
    async def opened(self, *, first_admin: bool = True) -> AsyncGenerator[Greeting]:
        """Open the store and start everything; inside the block requests are answered.

        Yields what is shown once and nowhere else: the key of the first admin if the store was empty, and on a local
        server a link to sign in with. Raises what kept it from
        opening, such as `StoreDown` or a bad policy.
        """
        from interlock.channels.table import (
            CHANNELS,  # brings HTTP clients, which tests of this file do not need
        )

        async with open_service(self.settings, channels=CHANNELS) as service:
            greeting = await greet(service) if first_admin else Greeting()
            if self.settings.policy:
                await activate_policy_file(service, Path(self.settings.policy))
            with self.answering(service):
                yield greeting

    @contextlib.contextmanager
    def answering(self, service: Service) -> Generator[None]:
        """Answer with a service that is open already, inside the block."""
        self._open = _Open(service, self.log)
        try:
            yield
        finally:
            self.stop_waiting()
            self._open = None

    def stop_waiting(self) -> None:
        """Answer long polls and end streams now: the server is about to stop, and would wait for them."""
        if self._open is not None:
            self._open.service.stop_waiting()

    def metrics(self) -> Asgi:
        """The figures of every tenant, and nothing else, as an application of their own; it reads no bodies."""
        if self._open is None:
            raise RuntimeError(_NOT_OPEN)
        app = assemble_metrics(self._open.service, self.log)

        async def answer(scope: Scope, _: Receive, send: Send) -> None:
            response = await app.respond(Request(method=scope["method"], path=scope["path"]))
            headers = encoded_headers(response.headers)
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})

        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's lifespan or one request."""
        if scope["type"] == "http":
            if self._open is None:
                raise RuntimeError(_NOT_OPEN)
            await self._open.exchange(self._asked(scope), scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Open when the server starts and close when it ends. The first key is made with the command line."""
        await receive()
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.opened(first_admin=False))
            except Exception as error:  # noqa: BLE001 - whatever it is, the server must learn that it cannot start
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def _asked(self, scope: Scope) -> _Asked:
        """Where a request is for and whom it comes from, before its headers are looked at."""
        root = str(scope.get("root_path") or self._root).rstrip("/")
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        # A proxy may have taken off its part of the prefix, which is the root of the application that mounts this.
        for prefix in (root.encode(), root.removeprefix(str(scope.get("app_root_path", ""))).encode()):
            if prefix and (raw == prefix or raw.startswith(prefix + b"/")):
                raw = raw[len(prefix) :] or b"/"
                break
        client, scheme = self._trusted.origin(scope)
        return _Asked(root, raw, client, scheme)


class _Asked(NamedTuple):
    root: str
    raw_path: bytes
    client: str | None
    scheme: str


class _Open:
    """What answers while the application is open."""

    def __init__(self, service: Service, log: Log) -> None:
        self.service = service
        settings, registry = service.settings, service.registry
        self._app: App[Known, Service] = assemble(service, log)
        self._console = Console(service, self._app.respond, facts_of(self._app.operations), log)
        self._bodies = _Bodies(settings, registry)
        self._stalled_seconds = settings.stalled_seconds
        self._in_flight = 0
        self._hearing = 0
        registry.gauge(
            "interlock_requests_in_flight", "Requests that are being answered.", lambda: self._in_flight
        )
        self._cut: Counter = registry.counter(
            "interlock_connections_cut_total",
            "Connections cut because their client read nothing for too long.",
        )

    async def exchange(self, asked: _Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever it is."""
        self._in_flight += 1
        incoming = _Incoming(self._bodies, receive)
        try:
            request, response = await self._answer(asked, scope, incoming)
            headers = response.headers
            if incoming.is_withheld and scope["http_version"] != "2":
                headers = (*headers, ("connection", "close"))
            start = {
                "type": "http.response.start",
                "status": response.status,
                "headers": encoded_headers(headers),
            }
            await send(start)
            if response.stream is not None:
                await self._send_stream(request, response.stream, receive, send)
            elif len(response.body) <= _PIECE_BYTES:
                await send({"type": "http.response.body", "body": response.body})
            else:
                await self._send_pieces(_pieces(response.body), send)
            if incoming.is_unread and self._hearing < _HEARING_MAX:
                self._hearing += 1
                try:
                    await _hear_out(receive)
                finally:
                    self._hearing -= 1
        finally:
            self._in_flight -= 1

    async def _answer(self, asked: _Asked, scope: Scope, incoming: _Incoming) -> tuple[Request, Response]:
        try:
            request = self._read_head(asked, scope, incoming)
        except ProblemError as refused:
            incoming.expect({name.decode("latin-1").lower(): "1" for name, _ in scope["headers"]})
            request = Request(method=scope["method"], path="", root=asked.root, client=asked.client)
            part = self._console if is_page(asked.raw_path.decode("latin-1")) else self._app
            return request, part.refuse(request, refused)
        if is_page(request.path):
            return request, await self._console.respond(request)
        return request, await self._app.respond(request)

    def _read_head(self, asked: _Asked, scope: Scope, incoming: _Incoming) -> Request:
        """The request without its body, which is read when its caller is known; refuses what its head rules out."""
        headers = read_headers(scope["headers"])
        incoming.expect(headers)
        check_framing(headers, scope["http_version"])
        path, query = read_target(asked.raw_path, scope["query_string"])
        check_length(headers, self._bodies.bytes_max)
        return Request(
            method=scope["method"],
            path=path,
            query=query,
            headers=headers,
            gone=incoming.gone,
            # Over HTTP/2 a body needs no header that tells of it.
            read=incoming.read if incoming.has_body or scope["http_version"] == "2" else None,
            root=asked.root,
            client=asked.client,
            scheme=asked.scheme,
        )

    async def _send_stream(
        self, request: Request, stream: AsyncIterator[bytes], receive: Receive, send: Send
    ) -> None:
        """Send until the stream ends, the server stops or the client leaves; one that breaks is torn off."""
        if self.service.is_stopping:
            stream = _nothing()
        sending = asyncio.create_task(self._send_pieces(stream, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()  # If it is done, that does nothing.
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await _close(stream)
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, Torn):
            self._app.report(error, request)
            raise Torn from error
        if error is not None:
            raise error

    async def _send_pieces(self, pieces: AsyncIterator[bytes] | Iterable[bytes], send: Send) -> None:
        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                await self._send_piece(piece, send)
        else:
            for piece in pieces:
                await self._send_piece(piece, send)
        await send({"type": "http.response.body", "body": b""})

    async def _send_piece(self, piece: bytes, send: Send) -> None:
        """Wait no longer than `stalled_seconds` for a client that takes nothing of what is there for it."""
        try:
            async with asyncio.timeout(self._stalled_seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            log.info("a client read nothing for %s s; its connection is cut", self._stalled_seconds)
            self._cut.add()
            raise Torn("the client reads nothing") from None


class _Incoming:
    """What comes of one request after its head."""

    __slots__ = ("_bodies", "_is_held_back", "_is_read", "_length", "_receive", "has_body")

    def __init__(self, bodies: _Bodies, receive: Receive) -> None:
        self._bodies = bodies
        self._receive = receive
        self._length = ""
        self._is_held_back = False
        self._is_read = False
        self.has_body = False

    def expect(self, headers: Mapping[str, str]) -> None:
        """What a head says of the body."""
        self._length = headers.get("content-length", "")
        self._is_held_back = "expect" in headers
        self.has_body = "transfer-encoding" in headers or self._length not in ("", "0")

    async def read(self) -> bytes:
        """The body, whole."""
        self._is_read = True
        try:
            return await self._bodies.read(self._receive, int(self._length) if self._length else None)
        except ProblemError as refused:
            # The rest of a body that was this slow is not waited for.
            self._is_read = refused.problem.code == "body_timeout"
            raise

    async def gone(self) -> None:
        """Return when the client has left."""
        await _left(self._receive)

    @property
    def is_unread(self) -> bool:
        """Whether a client may still be sending a body that nobody wants."""
        return self.has_body and not self._is_read and not self._is_held_back

    @property
    def is_withheld(self) -> bool:
        """Whether a client waits to be told to send its body (`Expect`): what it sends next would be misread."""
        return self.has_body and not self._is_read and self._is_held_back


class _Bodies:
    """Request bodies that are not there whole: each within a size and a deadline, all of them within one bound."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self.bytes_max = settings.body_bytes_max
        self._seconds = settings.body_seconds
        self._all_bytes_max = max(settings.bodies_bytes_max, self.bytes_max)
        self._held_bytes = 0
        registry.gauge(
            "interlock_unfinished_body_bytes",
            "Bytes held of request bodies that have not come whole.",
            lambda: self._held_bytes,
        )

    async def read(self, receive: Receive, announced: int | None) -> bytes:
        """One body, whole; raises the problem if it is too large, too slow, too much or breaks off."""
        try:
            # Trickling earns no more time: a client that sends this slowly would hold memory for ever.
            async with asyncio.timeout(self._seconds):
                return await self._read(receive, announced)
        except TimeoutError:
            detail = f"the body was not there after {self._seconds:g} s; send it faster, or less"
            members = {"limit_seconds": self._seconds}
            raise ProblemError(
                problem("body_timeout", detail, members=members), (("connection", "close"),)
            ) from None

    async def _read(self, receive: Receive, announced: int | None) -> bytes:
        """Ask for no more once there is as much as was announced: that would be one more turn through the server."""
        body, is_last = _part(await receive())
        if is_last or len(body) == announced:
            self._check(len(body))
            return body
        whole = bytearray()
        try:
            while True:
                whole += body
                self._held_bytes += len(body)
                self._check(len(whole))
                if is_last or len(whole) == announced:
                    return bytes(whole)
                body, is_last = _part(await receive())
        finally:
            self._held_bytes -= len(whole)

    def _check(self, body_bytes: int) -> None:
        if body_bytes > self.bytes_max:
            raise too_large(self.bytes_max)
        if self._held_bytes > self._all_bytes_max:
            detail = "this server holds as much of unfinished bodies as it may; try again"
            raise ProblemError(problem("overloaded", detail))


class _Trusted(NamedTuple):
    """The proxies whose word about a client is taken."""

    networks: Allowed
    is_unix: bool

    @classmethod
    def read(cls, text: str) -> _Trusted:
        words = [word.strip() for word in text.split(",")]
        networks = ",".join(word for word in words if word != UNIX_PEER)
        return cls(read_networks(networks), UNIX_PEER in words)

    def origin(self, scope: Scope) -> tuple[str | None, str]:
        """The client's address and scheme: the connection's, or what a trusted proxy says of them."""
        peer = (scope.get("client") or (None,))[0] or None
        scheme = str(scope.get("scheme", "http"))
        if not self._trusts(peer):
            return peer, scheme
        named = _joined(scope, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
        # The last one that no trusted proxy put there: a client may have sent whatever stands before it.
        for word in reversed(_joined(scope, b"x-forwarded-for").split(",")):
            if not (address := word.strip()):
                break
            peer = address[:100]
            if not self._trusts(peer):
                break
        return peer, named if named in ("http", "https") else scheme

    def _trusts(self, peer: str | None) -> bool:
        if peer is None:
            return self.is_unix
        if not self.networks.networks:
            return False
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(
            address.version == network.version and address in network for network in self.networks.networks
        )


def _joined(scope: Scope, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name)


def _part(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise invalid(JsonFault("", "the body broke off; send as much as its head announces"))
    return message.get("body", b""), not message.get("more_body", False)


async def _left(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _hear_out(receive: Receive) -> None:
    """Read and drop the rest of a refused body.

    A connection that is closed over unread input is reset, and a client that reads only once it has sent everything
    would not get its answer.
    """
    heard_bytes = 0
    # A server that stops cancels this; nothing follows it that would miss that.
    with contextlib.suppress(TimeoutError, ProblemError, asyncio.CancelledError):
        async with asyncio.timeout(_HEARING_SECONDS):
            is_last = False
            while not is_last and heard_bytes <= _HEARING_BYTES_MAX:
                piece, is_last = _part(await receive())
                heard_bytes += len(piece)


def encoded_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Headers as a server takes them; raises `Torn` if one would be two."""
    if _ENDS_A_LINE.search("".join([value for _, value in headers])):
        raise Torn("a header of the response would end its line")
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _pieces(body: bytes) -> Iterable[bytes]:
    return (body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES))


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
