"""Why a server cannot be reached, each cause in its own sentence with the next step."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

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
