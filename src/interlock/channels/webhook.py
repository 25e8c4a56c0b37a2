"""Webhooks: an event is a signed POST to an address, without trusting the address, its name or its answer.

The name is resolved once; every address it gives is checked, and the connection goes to a checked address,
not to the name, so a name that resolves differently a moment later changes nothing. Host header, SNI and
certificate check still use the name. Redirects are not followed, proxies of the environment are not used,
one clock bounds the whole exchange, and of the answer only the status and a few kilobytes are read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import httpcore2
import msgspec

from interlock.kernel.codec.sealing import CannotUnseal
from interlock.rooms.events.addresses import Address, Allowed, read_networks, refusal
from interlock.rooms.events.cloud_events import MEDIA_TYPE
from interlock.rooms.events.deliveries import Backoff
from interlock.rooms.events.model import Delivery
from interlock.rooms.events.signing import signed_headers
from interlock.service.channel import Channel, ChannelLimits, Delivered, Destination, Outcome, TryAgain
from interlock.service.settings import Settings

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

ANSWER_BYTES_MAX = 16 * 1024
CONNECTIONS_MAX = 8
USER_AGENT = "interlock-webhook/1"

_IDLE_SECONDS = 30.0
# The exchange has its own time limit, and its error says what was missing. The relay's limit is only for what
# is stuck elsewhere.
_SPARE_SECONDS = 1.0


class WebhookChannel(Channel):
    """Posts each event by itself, signed after the Standard Webhooks specification."""

    kind: ClassVar[str] = "webhook"
    resolve: ClassVar[Resolve | None] = None

    def __init__(self, destination: Destination, settings: Settings) -> None:
        self._destination = destination
        posting = Posting(
            allowed=read_networks(settings.webhook_allow_private),
            timeout_seconds=settings.webhook_timeout_seconds,
            resolve=type(self).resolve,
        )
        self._poster = Poster(destination.address, posting)
        self.limits = ChannelLimits(
            seconds=settings.webhook_timeout_seconds + _SPARE_SECONDS,
            backoff=Backoff(
                base_seconds=settings.webhook_retry_base_seconds,
                most_seconds=settings.webhook_retry_most_seconds,
                attempts_max=settings.webhook_attempts_max,
            ),
            at_once=CONNECTIONS_MAX,
        )

    async def deliver(self, letters: Sequence[Delivery]) -> Outcome:
        (letter,) = letters
        body = letter.body.encode()
        try:
            signed = signed_headers(self._destination.secrets(), letter.event_id, int(time.time()), body)
            status = await self._poster.post(
                {"content-type": MEDIA_TYPE, "user-agent": USER_AGENT, **signed}, body
            )
        except CannotUnseal as why:
            return TryAgain(str(why))
        except PostRefused as why:
            return TryAgain(str(why), why.retry_after_seconds)
        return Delivered(status=status)

    async def close(self) -> None:
        await self._poster.close()


class PostRefused(Exception):
    """The webhook did not take the event; the message says why. `retry_after_seconds` if it said when."""

    def __init__(self, why: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds


class AddressRefused(PostRefused):
    """The name leads to no address that may be connected to."""


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """How to post: what is allowed, how long it may take, who resolves names, whom to trust."""

    allowed: Allowed = Allowed()
    timeout_seconds: float = 10.0
    resolve: Resolve | None = None
    ssl_context: ssl.SSLContext | None = None


class Poster:
    """Posts to one URL, over connections that are kept for a while."""

    def __init__(self, url: str, posting: Posting) -> None:
        self._url = url
        self._seconds = posting.timeout_seconds
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=posting.ssl_context or _trusting(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_CheckedNetwork(
                posting.allowed, posting.resolve or resolve, encrypted=urlsplit(url).scheme == "https"
            ),
        )

    async def post(self, headers: Mapping[str, str], body: bytes) -> int:
        """Post, and return the status, which is 2xx; anything else is `PostRefused`."""
        try:
            async with asyncio.timeout(self._seconds):
                status, retry_after = await self._exchange(headers, body)
        except TimeoutError:
            raise PostRefused(f"no whole answer within {self._seconds:g} s") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            raise PostRefused(f"the connection failed: {_named(error)}") from error
        except (OSError, httpcore2.UnsupportedProtocol) as error:
            raise PostRefused(f"the connection failed: {_named(error)}") from error
        if status // 100 == 2:
            return status
        if status // 100 == 3:
            raise PostRefused(f"it answered {status}, a redirect, which is not followed; give the final URL")
        raise PostRefused(f"it answered {status}", retry_after_seconds=retry_after)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._pool.aclose()

    async def _exchange(self, headers: Mapping[str, str], body: bytes) -> tuple[int, float]:
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        sent.append((b"content-length", str(len(body)).encode()))
        async with self._pool.stream("POST", self._url, headers=sent, content=body) as response:
            size = 0
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > ANSWER_BYTES_MAX:
                    break  # closes the connection: nobody needs the rest
            return response.status, _retry_after(response.headers)


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that may be reached, and to nothing else."""

    def __init__(self, allowed: Allowed, resolve: Resolve, *, encrypted: bool) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._encrypted = encrypted
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await self._resolve(host, port)
        usable = [each for each in found if self._allowed.permits(each, encrypted=self._encrypted)]
        if not usable:
            reasons = "; ".join(refusal(each) for each in found[:1]) or "it has no address"
            raise AddressRefused(f"{host} may not be reached: {reasons}")
        error: Exception | None = None
        for address in usable:
            try:
                stream = await self._network.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as failed:
                error = failed
                continue
            return _Connection(await _checked_peer(stream, address))
        raise error or PostRefused(f"{host} cannot be connected to")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise AddressRefused("a socket file is not an address of a webhook")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Connection(httpcore2.AsyncNetworkStream):
    """A connection that is closed even if its TLS handshake is cancelled.

    The library closes it only after an error. A receiver that never answers the handshake would otherwise leave one
    open socket per attempt, because the time limit ends an attempt by cancelling it.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def resolve(host: str, port: int) -> list[Address]:
    """Every address that a name has now."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PostRefused(f"the name {host} does not resolve: {error}") from error
    addresses = (ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)
    return list(dict.fromkeys(addresses))


async def _checked_peer(
    stream: httpcore2.AsyncNetworkStream, address: Address
) -> httpcore2.AsyncNetworkStream:
    """The stream, if its other end is the address that was checked."""
    peer = stream.get_extra_info("server_addr")
    if peer is None or ip_address(str(peer[0]).partition("%")[0]) != address:
        await stream.aclose()
        raise AddressRefused(f"connected to {peer}, which is not {address}")
    return stream


def _trusting() -> ssl.SSLContext:
    """The usual authorities, and those that this machine was told to trust."""
    context = httpcore2.default_ssl_context()
    context.load_default_certs()
    return context


def _retry_after(headers: Sequence[tuple[bytes, bytes]]) -> float:
    for name, value in headers:
        if name.lower() == b"retry-after" and value.isdigit() and len(value) < 8:
            return float(int(value))
    return 0.0


def _named(error: Exception) -> str:
    return str(error) or type(error).__name__
