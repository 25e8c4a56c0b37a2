"""Reads the head of a request: it must be within its limits and have only one meaning, and it names the caller.

The caller is named by `Authorization: Bearer <key>` or `X-API-Key: <key>`. A session's token counts as a key only in a
request that a part of this process made (`Request.made_via`): a browser sends the console a cookie, and never a token
to the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.api.problem import ProblemError, invalid, problem
from interlock.kernel.codec.strict import JsonFault
from interlock.rooms.identity.refusals import Unauthenticated
from interlock.wire.http import Request

if TYPE_CHECKING:
    from interlock.service.keyring import Known
    from interlock.service.service import Service

HEADER_BYTES_MAX = 32 * 1024
HEADERS_MAX = 256

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
        # The space that may stand behind a value is no part of it; some servers leave it there.
        key, text = lower.decode("latin-1"), value.rstrip().decode("latin-1")
        if key in headers:
            if lower in _ONCE:
                raise invalid(JsonFault(f"header/{key}", "appears twice; send it once"))
            # Over HTTP/2 a browser sends each of its cookies in a header of its own.
            text = f"{headers[key]}{'; ' if key == 'cookie' else ', '}{text}"
        headers[key] = text
    if size > bytes_max:
        detail = f"the headers are larger than {bytes_max} bytes together; send fewer or shorter ones"
        raise ProblemError(problem("headers_too_large", detail, members={"limit_bytes": bytes_max}))
    return headers


def check_length(headers: Mapping[str, str], bytes_max: int) -> None:
    """Refuse a body that is announced as too large, before a byte of it is read."""
    announced = headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()):
        raise invalid(JsonFault("header/content-length", "must be a number of bytes"))
    if len(announced) > 15 or int(announced) > bytes_max:
        raise too_large(bytes_max)


def check_framing(headers: Mapping[str, str], http_version: str) -> None:
    """Refuse a head that another reader on the way could take for a different request, or for another host's.

    It is the connection's last: where that other reader would see the next request begin, nobody knows.
    """
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise _last(invalid(JsonFault("header/transfer-encoding", "must be chunked and nothing else")))
    if "transfer-encoding" in headers and "content-length" in headers:
        raise _last(invalid(JsonFault("header/content-length", "must not stand beside transfer-encoding")))
    if http_version == "1.1" and not headers.get("host"):  # granian hands an absent one on as an empty one
        raise _last(invalid(JsonFault("header/host", "is missing; HTTP/1.1 asks for it")))


def announced_bytes(headers: Mapping[str, str]) -> int:
    """How long the body is going to be, as far as a head says; `check_length` has seen it."""
    return int(headers.get("content-length", "0"))


def _last(refused: ProblemError) -> ProblemError:
    return ProblemError(refused.problem, (("connection", "close"),))


def too_large(bytes_max: int) -> ProblemError:
    """The refusal of a body beyond the limit."""
    detail = f"the body is larger than {bytes_max} bytes; send less, or a reference to it and its hash"
    return ProblemError(problem("too_large", detail, members={"limit_bytes": bytes_max}))


def read_target(path: bytes, query: bytes) -> tuple[str, str]:
    """Path and query as they were on the wire, which is ASCII."""
    try:
        return path.decode("ascii"), query.decode("ascii")
    except UnicodeError:
        raise invalid(JsonFault("path", "holds bytes beyond ASCII; percent-encode them")) from None


# These are asked by POST, but nothing is decided, so no transaction checks the key again.
_ONLY_ASKING = frozenset({"/api/v1/policy/evaluate", "/api/v1/policy/simulate"})


async def authenticate(request: Request, service: Service) -> Known:
    """The caller behind a request's key. Calls that the kernel decides are checked again there.

    The key is checked when only the head of a request is there, so only a known caller's body is kept. If the
    kernel's queue has no room, the request is refused before that: in an overload a refusal must cost almost
    nothing.
    """
    deciding = request.method not in ("GET", "HEAD") and request.path not in _ONLY_ASKING
    if deciding:
        service.kernel.check_room(len(request.body) or announced_bytes(request.headers))
    return await service.keyring.known(
        presented_key(request), recent_will_do=deciding, sessions_count=request.made_via is not None
    )


def presented_key(request: Request) -> str:
    """The key that came with a request; None if there are two different ones."""
    keys = presented_keys(request)
    if len(keys) != 1:
        raise Unauthenticated("two different keys were sent" if keys else "no key was sent")
    return keys.pop()


def presented_keys(request: Request) -> set[str]:
    """Every key that came with a request."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    keys = {request.headers.get("x-api-key", "").strip()}
    if scheme.lower() == "bearer":
        keys.add(bearer.strip())
    keys.discard("")
    return keys
