"""Sends requests to a server over HTTP, on pooled connections, never through a redirect.

This module decides whether a failed request may have been received, and so whether it may be sent again: only if the
connection could not be made, or was never handed out, is it certain that nothing was sent. It loads the HTTP library,
so it is imported only where there is a server to talk to.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2

from interlock.sdk.calls import invalid
from interlock.sdk.flow import Request, Response, TransportFailed

# What OpenSSL says of an answer in plain words.
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_HANDSHAKE_SECONDS = 2.0


def why(error: Exception, url: str) -> str:
    """One sentence for what the library or the system says."""
    where = _place(url)
    for cause in _causes(error):
        told = _told(cause, where, url)
        if told is not None:
            return told
    return str(error) or type(error).__name__


def use_tls(url: str) -> str:
    """What to say of a server that wants TLS and was spoken to without."""
    return f"{_place(url)} speaks TLS, and http:// does not; use {url.replace('http://', 'https://', 1)}"


def wants_tls(url: str) -> bool:
    """Whether a server that hung up on plain HTTP takes part in a TLS handshake. Waits for it briefly."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # Nothing is said to it.
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 80), _HANDSHAKE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False


def _told(cause: BaseException, where: str, url: str) -> str | None:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"the certificate of {where} is not trusted ({cause.verify_message}); name its CA with SSL_CERT_FILE"
        case ssl.SSLError() if cause.reason in _PLAIN_ANSWERS:
            plain = url.replace("https://", "http://", 1)
            return f"{where} does not speak TLS; use {plain}, or the address of the TLS proxy in front of it"
        case ssl.SSLError() if "CERTIFICATE_REQUIRED" in (cause.reason or ""):
            return (
                f"{where} lets in only clients that show a certificate, and `interlock` and the SDK show none; "
                "use the address of a proxy that shows one, or of a server without --tls-client-ca"
            )
        case ssl.SSLError():
            return f"TLS with {where} fails ({cause.reason or cause}); check the address and its port"
        case socket.gaierror():
            return f"the host {where} is not known ({cause.strerror}); check the address"
        case OSError() if cause.errno == errno.ECONNREFUSED:
            return f"nothing listens at {where}"
        case OSError() if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
            return f"there is no way to {where} ({cause.strerror}); check the network"
        case _:
            return None


def _place(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what brought it about, the outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


# As many connections as calls under way: one that waits for a person would keep the others of its client waiting.
# They are dropped below the usual five seconds of servers, so that it is not the server that drops them.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=4.0)
ANSWER_BYTES_MAX = 64 * 1024 * 1024
NEVER_ARRIVED = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
# What a server that wants TLS does with plain words: it hangs up, or says something that is not HTTP.
CUT_OFF = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)


class HttpTransport:
    """Blocking HTTP; connections are shared by the threads of one process and never across a fork."""

    def __init__(self, url: str) -> None:
        self._url = checked_url(url)
        self._client: httpx2.Client | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def send(self, request: Request) -> Response:
        """Carry one request; the whole answer arrives within its timeout or `TransportFailed` is raised."""
        incoming = _Incoming(request.timeout_seconds)
        try:
            answer = self._connected().send(_outgoing(self._url, request), stream=True)
            try:
                for chunk in answer.iter_bytes():
                    incoming.take(chunk)
            finally:
                answer.close()
        except (httpx2.HTTPError, OSError) as error:
            raise _failed(error, self._url) from error
        return incoming.response(answer)

    def close(self) -> None:
        """Close every connection of this process; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    def in_loop(self) -> AsyncHttpTransport:
        """The way to the same server from an event loop; closed by itself."""
        return AsyncHttpTransport(self._url)

    def _connected(self) -> httpx2.Client:
        if self._pid != os.getpid():
            # The parent's sockets carry the parent's answers, and its lock may be held for ever.
            self._client, self._pid, self._lock = None, os.getpid(), threading.Lock()
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(verify=_trust(self._url), limits=LIMITS, follow_redirects=False)
            return self._client


class AsyncHttpTransport:
    """HTTP from an event loop; each loop has connections of its own."""

    def __init__(self, url: str) -> None:
        self._url = checked_url(url)
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient]
        self._clients = weakref.WeakKeyDictionary()

    async def send(self, request: Request) -> Response:
        """Carry one request; the whole answer arrives within its timeout or `TransportFailed` is raised."""
        incoming = _Incoming(request.timeout_seconds)
        try:
            answer = await self._connected().send(_outgoing(self._url, request), stream=True)
            try:
                async for chunk in answer.aiter_bytes():
                    incoming.take(chunk)
            finally:
                await answer.aclose()
        except (httpx2.HTTPError, OSError) as error:
            raise await asyncio.to_thread(_failed, error, self._url) from error
        return incoming.response(answer)

    async def close(self) -> None:
        """Close every connection of the running loop; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def leave(self) -> None:
        """Close every connection, from outside of their loops: each loop that still runs closes its own."""
        for loop, client in list(self._clients.items()):
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)
        self._clients.clear()

    def _connected(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = httpx2.AsyncClient(
                verify=_trust(self._url), limits=LIMITS, follow_redirects=False
            )
        return client


class _Incoming:
    """An answer on its way in: bounded in size and, beyond the library's pause between bytes, in time."""

    def __init__(self, timeout_seconds: float) -> None:
        self._until = time.monotonic() + timeout_seconds
        self._chunks: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > ANSWER_BYTES_MAX:
            raise TransportFailed(
                f"the answer is larger than {ANSWER_BYTES_MAX} bytes; ask for less with limit=",
                may_have_been_received=True,
            )
        if time.monotonic() > self._until:
            raise TransportFailed("the answer did not end in time", may_have_been_received=True)

    def response(self, answer: httpx2.Response) -> Response:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Response(status=answer.status_code, headers=headers, body=b"".join(self._chunks))


def checked_url(url: str) -> str:
    """The server's address without a slash at its end; refuses what is not one."""
    if not _is_address(url):
        raise invalid(f"{url!r} is not the address of a server; write it like https://interlock.example.com")
    bare = url.rstrip("/")
    if bare.endswith("/api/v1"):
        raise invalid(
            f"{url!r} is a path of a server's API; pass the server's address alone, such as https://interlock.example.com"
        )
    return bare


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is read, and may turn out to be none, only now
        _ = (parts.hostname or "").encode("idna")  # as the look-up of the name will spell it
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and not parts.query and not parts.fragment


def _trust(url: str) -> ssl.SSLContext | bool:
    """The system's certificates, which take a while to load; where there is no TLS, none at all."""
    return True if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _outgoing(url: str, request: Request) -> httpx2.Request:
    target = f"{url}{request.path}?{request.query}" if request.query else f"{url}{request.path}"
    timeout = httpx2.Timeout(request.timeout_seconds)
    return httpx2.Request(
        request.method,
        target,
        headers=dict(request.headers),
        content=request.body or None,
        extensions={"timeout": timeout.as_dict()},
    )


def _failed(error: Exception, url: str) -> TransportFailed:
    # only a client in trouble needs it

    if isinstance(error, CUT_OFF) and wants_tls(url):
        # Nobody there has read what was asked.
        return TransportFailed(use_tls(url), may_have_been_received=False)
    return TransportFailed(why(error, url), may_have_been_received=not isinstance(error, NEVER_ARRIVED))
