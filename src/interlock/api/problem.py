"""Problem documents (RFC 9457): the only form of an error in an answer.

A problem is named by its code; `codes.CODES` gives the status, the title and whether a retry can help. This module
knows no refusals: `api/problems.py` maps those.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from interlock.api.next_steps import routed
from interlock.kernel.codec.strict import Fault
from interlock.kernel.refusal import Next
from interlock.wire.codes import CODES
from interlock.wire.http import Headers, Response
from interlock.wire.next_step import NextStep

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_MS_DEFAULT = 1000
_OWN_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "retryable", "retry_after_ms", "next"})
_NO_MEMBERS: Mapping[str, object] = MappingProxyType({})


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal to be sent. `members` are the fields of the case, beside those that every problem has.

    `detail` names no route and no command: the step that follows is `next`, for each surface to put into its words.
    """

    code: str
    title: str
    status: int
    detail: str
    retryable: bool
    retry_after_ms: int | None = None
    next: NextStep | None = None
    members: Mapping[str, object] = _NO_MEMBERS
    headers: Headers = ()

    @property
    def type(self) -> str:
        """A stable reference, relative to the server, at which people can read what the code means."""
        return f"/problems/{self.code}"

    def document(self) -> dict[str, object]:
        """Lay the problem out as it goes over the wire."""
        document: dict[str, object] = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
        }
        if self.retry_after_ms is not None:
            document["retry_after_ms"] = self.retry_after_ms
        document.update(self.members)
        if self.next is not None:
            document["next"] = msgspec.to_builtins(self.next)
        return document


class ProblemError(Exception):
    """Raised anywhere between the socket and a room to end the request with `problem`."""

    def __init__(self, problem: Problem) -> None:
        """Carry the problem to the core, which sends it."""
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem


def problem(
    code: str,
    detail: str,
    *,
    status: int | None = None,
    retry_after_ms: int | None = None,
    then: Next | None = None,
    members: Mapping[str, object] = _NO_MEMBERS,
    headers: Headers = (),
) -> Problem:
    """Make the problem called `code`. Only `lock_busy` has a configurable `status`.

    A retryable problem always says when: `retry_after_ms` is the caller's estimate, else a second.
    """
    info = CODES[code]
    if not _OWN_MEMBERS.isdisjoint(members):
        raise ValueError(f"members of {code} would overwrite {sorted(_OWN_MEMBERS.intersection(members))}")
    if info.retryable:
        retry_after_ms = max(1, RETRY_AFTER_MS_DEFAULT if retry_after_ms is None else retry_after_ms)
    elif retry_after_ms is not None:
        raise ValueError(f"{code} is not retryable, so it cannot say when to retry")
    return Problem(
        code=code,
        title=info.title,
        status=info.status if status is None else status,
        detail=detail,
        retryable=info.retryable,
        retry_after_ms=retry_after_ms,
        next=None if then is None else routed(then),
        members=members,
        headers=headers,
    )


def invalid(*faults: Fault) -> ProblemError:
    """Make the error for a malformed request, to be raised; it lists the path and reason of each fault."""
    listed = [{"path": fault.path, "reason": fault.reason} for fault in faults]
    first = faults[0]
    where = f"{first.path}: " if first.path else ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return ProblemError(
        problem("invalid_request", f"{where}{first.reason}{more}", members={"errors": listed})
    )


def retry_after(retry_after_ms: int) -> str:
    """Spell the `Retry-After` header: whole seconds, rounded up, at least one."""
    return str(max(1, -(-retry_after_ms // 1000)))


def problem_response(refused: Problem) -> Response:
    """Encode a problem, with `Retry-After` in whole seconds, rounded up, if a retry can help."""
    headers = [("content-type", MEDIA_TYPE), *refused.headers]
    if refused.retry_after_ms is not None:
        headers.append(("retry-after", retry_after(refused.retry_after_ms)))
    if refused.status == 401:
        headers.append(("www-authenticate", 'Bearer realm="interlock"'))
    return Response(
        status=refused.status, headers=tuple(headers), body=msgspec.json.encode(refused.document())
    )
