"""Problem documents (RFC 9457) as the SDK sees them, read from an answer or made where none came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from interlock.sdk.flow import Response

T = TypeVar("T")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call was not answered with success.

    `code` is the machine-readable word of the contract, or one of the client's own: `no_answer` (nothing
    came back), `circuit_open` (not sent: the service was failing) and `unexpected_answer` (not Interlock).
    `fields` holds whatever else the problem document said.
    """

    status: int
    code: str
    title: str = ""
    detail: str = ""
    retryable: bool | None = None
    retry_after_seconds: float | None = None
    fields: Mapping[str, object] = {}

    def text(self, name: str) -> str | None:
        """The named extra field if it is a string."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def nested(self, name: str) -> Mapping[str, object]:
        """The named extra field if it is an object, else an empty one."""
        value = self.fields.get(name)
        return msgspec.convert(value, dict[str, object]) if isinstance(value, dict) else {}


def read_problem(response: Response) -> Problem:
    """The problem in an answer that is not a success; an answer that is no problem document becomes one."""
    document = _object_in(response.body)
    if document is None or not isinstance(document.get("code"), str):
        return _foreign(response)
    return Problem(
        status=response.status,
        code=str(document["code"]),
        title=_as(str, document.get("title")) or "",
        detail=_as(str, document.get("detail")) or "",
        retryable=_as(bool, document.get("retryable")),
        retry_after_seconds=_retry_after_seconds(response, document.get("retry_after_ms")),
        fields=document,
    )


def no_answer(reason: str) -> Problem:
    """Nothing came back."""
    return Problem(status=0, code="no_answer", title="No answer", detail=f"no answer: {reason}")


def no_store(code: str, detail: str) -> Problem:
    """Nowhere to send it: there is no embedded store."""
    return Problem(status=0, code=code, title="No store", detail=detail, retryable=False)


def circuit_open(held_seconds: float) -> Problem:
    """Not sent at all."""
    detail = f"not sent: the service has been failing; the next probe goes out in {held_seconds:.1f} s"
    return Problem(
        status=0, code="circuit_open", title="Not sent", detail=detail, retry_after_seconds=held_seconds
    )


def _foreign(response: Response) -> Problem:
    """An answer from something in between (a proxy, another server): the status is all that is known."""
    return Problem(
        status=response.status,
        code="unexpected_answer",
        title="Not an answer of Interlock",
        detail=f"HTTP {response.status} without a problem document; check that the URL points at Interlock "
        "and what stands between",
        retry_after_seconds=_retry_after_seconds(response, None),
    )


def _object_in(body: bytes) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None


def _retry_after_seconds(response: Response, milliseconds: object) -> float | None:
    """How long the answer asks to wait; `retry_after_ms` first, as the header is rounded up from it."""
    if isinstance(milliseconds, int | float) and milliseconds >= 0:
        return milliseconds / 1000
    header = response.headers.get("retry-after", "").strip()
    if header.isascii() and header.isdigit():
        return float(header)
    return _seconds_between(response.headers.get("date"), header) if header else None


def _seconds_between(sent: str | None, until: str) -> float | None:
    """A `Retry-After` date, measured from the answer's own `Date`: the local clock may be wrong."""
    from email.utils import parsedate_to_datetime  # only proxies answer with dates

    try:
        wait = parsedate_to_datetime(until) - parsedate_to_datetime(sent or "")
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())
