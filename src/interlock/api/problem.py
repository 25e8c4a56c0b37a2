"""Makes problem documents and their answers: the status and title of a code, the route of the next step, headers.

This module knows no refusals: `api/problems.py` maps those.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from interlock.api.operations import Operation
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.refusal import Next
from interlock.wire.codes import CODES
from interlock.wire.http import Headers, Response
from interlock.wire.problem import NextStep, Problem

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_MS_DEFAULT = 1000
_OWN_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "retryable", "retry_after_ms", "next"})
_NO_MEMBERS: Mapping[str, object] = MappingProxyType({})


class ProblemError(Exception):
    """Raised anywhere between the socket and a room to end the request with `problem`."""

    def __init__(self, problem: Problem, headers: Headers = ()) -> None:
        """Carry the problem, and headers for its answer, to the core, which sends them."""
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem, self.headers = problem, headers


def problem(
    code: str,
    detail: str,
    *,
    status: int | None = None,
    retry_after_ms: int | None = None,
    then: Next | None = None,
    members: Mapping[str, object] = _NO_MEMBERS,
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
        retry_after_seconds=None if retry_after_ms is None else retry_after_ms / 1000,
        next=None if then is None else routed(then),
        fields=members,
    )


def routed(step: Next) -> NextStep:
    """The step with its method and path. What the path lacks is the query of a GET, else a field of the body."""
    operation = _operations()[step.operation]
    path, rest = operation.path, dict(step.arguments)
    for name in operation.path_parameters:
        if name in rest:
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
    if rest and operation.method == "GET":
        path = f"{path}?{urlencode(rest)}"
    return NextStep(
        operation=operation.id,
        method=operation.method,
        path=path,
        arguments=dict(step.arguments),
        needs=step.needs,
    )


@cache
def _operations() -> dict[str, Operation[Any, Any, Any, Any]]:
    # Only now: the table is made of the modules whose problems ask for it.
    from interlock.api.assembly import OPERATIONS

    return {operation.id: operation for operation in OPERATIONS}


def invalid(*faults: JsonFault) -> ProblemError:
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


def problem_response(refused: Problem, headers: Headers = ()) -> Response:
    """Encode a problem, with `Retry-After` in whole seconds, rounded up, if a retry can help."""
    sent = [("content-type", MEDIA_TYPE), *headers]
    if refused.retry_after_ms is not None:
        sent.append(("retry-after", retry_after(refused.retry_after_ms)))
    if refused.status == 401:
        sent.append(("www-authenticate", 'Bearer realm="interlock"'))
    return Response(status=refused.status, headers=tuple(sent), body=msgspec.json.encode(refused.document()))
