"""HTTP/1.1 as bytes, both ways: the head of a request within its limits, and a response as it is sent."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus

from interlock.api.http import Response
from interlock.api.problem import ProblemError, invalid, problem
from interlock.codec.strict import Fault

BODY_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 32 * 1024
HEADERS_MAX = 256

LAST_CHUNK = b"0\r\n\r\n"

# Sent twice, these could mean two things to two readers.
_ONCE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"x-api-key",
        b"x-request-id",
    }
)
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENDS_A_LINE = re.compile(r"[\x00\r\n]")


def read_headers(pairs: Sequence[tuple[bytes, bytes]], bytes_max: int = HEADER_BYTES_MAX) -> dict[str, str]:
    """Join repeated headers by commas, and refuse too many of them or two of one that must be single."""
    if len(pairs) > HEADERS_MAX:
        detail = f"there are more than {HEADERS_MAX} headers; send fewer"
        limits = {"limit_bytes": bytes_max, "limit_headers": HEADERS_MAX}
        raise ProblemError(problem("headers_too_large", detail, members=limits))
    headers: dict[str, str] = {}
    size = 0
    for name, value in pairs:
        size += len(name) + len(value)
        lower = name.lower()
        # The space that may stand behind a value is no part of it, and the parser leaves it there.
        key, text = lower.decode("latin-1"), value.rstrip().decode("latin-1")
        if key in headers:
            if lower in _ONCE:
                raise invalid(Fault(f"header/{key}", "appears twice; send it once"))
            text = f"{headers[key]}, {text}"
        headers[key] = text
    if size > bytes_max:
        detail = f"the headers are larger than {bytes_max} bytes together; send fewer or shorter ones"
        raise ProblemError(problem("headers_too_large", detail, members={"limit_bytes": bytes_max}))
    return headers


def check_length(headers: Mapping[str, str], bytes_max: int) -> None:
    """Refuse a body that is announced as too large, before a byte of it is read."""
    announced = headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()):
        raise invalid(Fault("header/content-length", "must be a number of bytes"))
    if len(announced) > 15 or int(announced) > bytes_max:
        raise too_large(bytes_max)


def too_large(bytes_max: int) -> ProblemError:
    """The refusal of a body beyond the limit."""
    detail = f"the body is larger than {bytes_max} bytes; send less, or a reference to it and its hash"
    return ProblemError(problem("too_large", detail, members={"limit_bytes": bytes_max}))


def read_target(path: bytes, query: bytes) -> tuple[str, str]:
    """Path and query as they were on the wire, which is ASCII."""
    try:
        return path.decode("ascii"), query.decode("ascii")
    except UnicodeError:
        raise invalid(Fault("path", "holds bytes beyond ASCII; percent-encode them")) from None


def encode_head(response: Response, *, keep_alive: bool, chunked: bool = False) -> bytes:
    """The status line and the headers, with what the connection adds to them."""
    if _ENDS_A_LINE.search("".join([value for _, value in response.headers])):
        raise ValueError("a header of the response would end its line")
    text = _STATUS_LINES[response.status] + date_line(int(time.time()))
    for name, value in response.headers:
        text += f"{name}: {value}\r\n"
    if not keep_alive:
        text += "connection: close\r\n"
    if chunked:
        text += "transfer-encoding: chunked\r\n"
    return (text + "\r\n").encode("latin-1")


@lru_cache(maxsize=1)
def date_line(second: int) -> str:
    """When a response was sent, as HTTP spells it in every language; spelled once a second."""
    at = time.gmtime(second)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year}"
    return f"date: {day} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT\r\n"


def encode_chunk(piece: bytes) -> bytes:
    """One piece of a body whose length nobody knows yet. An empty one would end it, so it is nothing."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
