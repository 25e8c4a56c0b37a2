"""The core of the API: turns a `Request` into a `Response`, and never fails.

`App.respond` raises nothing but cancellation and leaks no internals: expected refusals become problem documents, and
anything unexpected becomes a 500 without details, whose request id is in the log. It needs no server and no socket,
so an embedded client calls it directly.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from interlock.api.decoder import (
    JSON,
    check_unsent,
    decode_body,
    decode_idempotency_key,
    decode_query,
    decode_spelled,
    is_large,
    spell_body,
)
from interlock.api.operations import Answer, Answered, C, Call, Operation, Reply, S
from interlock.api.problem import MEDIA_TYPE as PROBLEM_JSON
from interlock.api.problem import ProblemError, invalid, problem, problem_response, retry_after
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.ids import new_id
from interlock.service.logs import Log
from interlock.service.metrics import Registry
from interlock.service.router import MethodNotAllowed, NoRoute, Router
from interlock.wire.http import Headers, NotDecodable, Request, Response
from interlock.wire.problem import Problem

PATH_BYTES_MAX = 8192
UNROUTED = "none"

Authenticate: TypeAlias = Callable[[Request, S], Awaitable[C]]
Translate: TypeAlias = Callable[[Exception], Problem | None]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NOT_KEPT: Headers = (("cache-control", "no-store"),)
_SAFE: Headers = (("x-content-type-options", "nosniff"),)
_PROBLEM_BEGINS = b'{"type":"/problems/'
_JSON_HEADERS: Headers = (("content-type", JSON),)
# What may hold slashes: targets and actions, which callers name as they like, and fingerprints, which are base64.
_WITH_SLASHES = ("key", "action_id", "fingerprint")

encode = msgspec.json.Encoder().encode


T = TypeVar("T")


class Apart(Protocol):
    """Where to compute what would keep others waiting, in fair turns between tenants."""

    @property
    def is_open(self) -> bool:
        """Whether there are other callers who would have to wait."""
        ...

    async def run(self, tenant: str, weight: int, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of a module in another process."""
        ...


class App(Generic[C, S]):
    """The operations of one service, ready to answer.

    `authenticate` names the caller of a request or raises; `translate` turns a room's refusals and faults
    into problems, and returns None for what it does not know, which is then an internal error.
    """

    def __init__(
        self,
        *,
        operations: Iterable[Operation[C, S, Any, Any]],
        services: S,
        authenticate: Authenticate[S, C],
        translate: Translate,
        log: Log,
        metrics: Registry,
        apart: Apart | None = None,
    ) -> None:
        """Route every operation; two with one method and path, or one id, are a mistake."""
        self.operations = tuple(operations)
        _check_ids(self.operations)
        routes = ((each.method, each.path, each) for each in self.operations)
        self._router = Router(routes, spanning=_WITH_SLASHES)
        self._services = services
        self._authenticate = authenticate
        self._translate = translate
        self._log = log
        self._apart = apart
        self._requests = metrics.counter(
            "interlock_http_requests_total", "Requests answered.", ("operation", "status")
        )
        self._problems = metrics.counter(
            "interlock_http_problems_total", "Requests refused, by problem code.", ("code", "status")
        )
        self._seconds = metrics.histogram(
            "interlock_http_request_seconds", "Time from request to answer.", ("operation",)
        )

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        trace: _Trace[C, S] = _Trace(request)
        try:
            response = await self._answered(request, trace)
        except Exception as error:  # noqa: BLE001 - the outermost edge: whatever it is, the caller gets an answer
            refused = self._problem(error, trace)
            trace.code = refused.code
            response = problem_response(refused, error.headers if isinstance(error, ProblemError) else ())
        if trace.code is None and response.status >= 400:
            trace.code, response = _told(response)
        response = _finished(request, response, trace.request_id)
        self._record(request, response, trace)
        return response

    def report(self, error: BaseException, request: Request) -> None:
        """Log what broke after the answer had begun, when it is too late for another answer."""
        self._log.fault(error, request=request, request_id=_request_id(request), route=UNROUTED)

    def refuse(self, request: Request, error: ProblemError) -> Response:
        """Answer a request that a server could not even read whole, in the same form as any other."""
        trace: _Trace[C, S] = _Trace(request)
        trace.code = error.problem.code
        response = _finished(request, problem_response(error.problem, error.headers), trace.request_id)
        self._record(request, response, trace)
        return response

    async def _known(
        self, operation: Operation[C, S, Any, Any], request: Request, path: Mapping[str, str]
    ) -> C:
        try:
            return await self._authenticate(request, self._services)
        except Exception as error:
            if operation.unheard is not None:
                operation.unheard(error, request, path, self._services)
            raise

    async def _answered(self, request: Request, trace: _Trace[C, S]) -> Response:
        _check_length(request)
        if request.method == "OPTIONS":
            return self._options(request)
        operation, path = self._found(request)
        trace.operation = operation
        if operation.public:
            check_unsent(operation, request)  # The caller is not known, so its body is not read.
        else:
            trace.caller = await self._known(operation, request, path)
            _check_role(operation, trace.caller)
            trace.request = request = await request.whole()
        query = decode_query(operation, request.query)
        document, body = await self._decoded(operation, request, trace.caller)
        call: Call[C, S, Any, Any] = Call(
            operation_id=operation.id,
            request=request,
            request_id=trace.request_id,
            services=self._services,
            path=path,
            query=query,
            body=body,
            document=document,
            idempotency_key=decode_idempotency_key(request),
            known_caller=trace.caller,
        )
        return _encoded(await operation.answer(call))

    def _found(self, request: Request) -> tuple[Operation[C, S, Any, Any], Mapping[str, str]]:
        try:
            return self._router.find(request.method, request.path)
        except (NoRoute, MethodNotAllowed, NotDecodable) as error:
            raise _unrouted(error) from None

    async def _decoded(
        self, operation: Operation[C, S, Any, Any], request: Request, caller: C | None
    ) -> tuple[Any, Any]:
        """The body as sent and as the operation's type. To read a large one strictly would keep others waiting."""
        apart = self._apart
        if apart is None or not apart.is_open or not is_large(operation, request):
            return decode_body(operation, request)
        tenant = caller.tenant if caller else ""
        spelled = await apart.run(tenant, len(request.body), spell_body, request.body, operation.body)
        return decode_spelled(operation, spelled)

    def _options(self, request: Request) -> Response:
        try:
            methods = sorted(_METHODS) if request.path == "*" else self._router.methods(request.path)
        except (NoRoute, NotDecodable) as error:
            raise _unrouted(error) from None
        return Response(status=204, headers=(("allow", ", ".join(methods)),))

    def _problem(self, error: Exception, trace: _Trace[C, S]) -> Problem:
        if isinstance(error, ProblemError):
            return error.problem
        try:
            known = self._translate(error)
        except Exception as worse:  # noqa: BLE001 - a broken translation must not cost the caller the answer
            known, error = None, worse
        if known is not None:
            return _as_told_by(trace.operation, known)
        self._log.fault(error, request=trace.request, request_id=trace.request_id, route=trace.route)
        detail = "something unexpected broke on our side; quote the request id when you report it"
        return problem("internal_error", detail, members={"request_id": trace.request_id})

    def _record(self, request: Request, response: Response, trace: _Trace[C, S]) -> None:
        seconds = perf_counter() - trace.started
        status = str(response.status)
        operation_id = trace.operation.id if trace.operation else UNROUTED
        self._requests.add(operation_id, status)
        self._seconds.observe(seconds, operation_id)
        if trace.code is not None:
            self._problems.add(trace.code, status)
        self._log.request(
            request_id=trace.request_id,
            method=request.method if request.method in _METHODS else "?",
            route=trace.route,
            status=response.status,
            duration_ms=round(seconds * 1000, 3),
            tenant=trace.caller.tenant if trace.caller else None,
            principal=trace.caller.principal if trace.caller else None,
            code=trace.code,
            client=request.client,
        )


class _Trace(Generic[C, S]):
    """What is known of a request so far, for the log."""

    __slots__ = ("caller", "code", "operation", "request", "request_id", "started")

    def __init__(self, request: Request) -> None:
        self.started = perf_counter()
        self.request = request
        self.request_id = _request_id(request)
        self.operation: Operation[C, S, Any, Any] | None = None
        self.caller: C | None = None
        self.code: str | None = None

    @property
    def route(self) -> str:
        return self.operation.path if self.operation else UNROUTED


def _request_id(request: Request) -> str:
    sent = request.headers.get("x-request-id")
    return sent if sent is not None and _REQUEST_ID.fullmatch(sent) else new_id("req")


def _check_ids(operations: tuple[Operation[Any, Any, Any, Any], ...]) -> None:
    seen: set[str] = set()
    for operation in operations:
        if operation.id in seen:
            raise ValueError(f"two operations are called {operation.id}; rename one of them")
        seen.add(operation.id)


def _unrouted(error: NoRoute | MethodNotAllowed | NotDecodable) -> ProblemError:
    if isinstance(error, NotDecodable):
        return invalid(JsonFault("path", str(error)))
    if isinstance(error, MethodNotAllowed):
        return ProblemError(problem("method_not_allowed", str(error)), (("allow", error.allowed),))
    hint = (
        "leave out the slash at its end"
        if error.without_slash
        else "GET /openapi.json lists every one there is"
    )
    return ProblemError(problem("not_found", f"{error}; {hint}"))


def _check_length(request: Request) -> None:
    if len(request.path) + len(request.query) > PATH_BYTES_MAX:
        detail = f"path and query are longer than {PATH_BYTES_MAX} bytes together"
        raise ProblemError(problem("uri_too_long", detail, members={"limit_bytes": PATH_BYTES_MAX}))


def _check_role(operation: Operation[C, S, Any, Any], caller: C) -> None:
    if operation.roles and not any(role in caller.roles for role in operation.roles):
        needed = " or ".join(operation.roles)
        detail = f"this needs the role {needed}; ask an administrator for it"
        raise ProblemError(problem("forbidden", detail, members={"roles": list(operation.roles)}))


def _as_told_by(operation: Operation[Any, Any, Any, Any] | None, refused: Problem) -> Problem:
    """Answer with the operation's own code for "unavailable", both when the store is silent and when it is locked."""
    if operation is None or operation.unavailable == "store_unavailable":
        return refused
    if refused.code not in ("store_unavailable", "lock_busy"):
        return refused
    return problem(operation.unavailable, refused.detail, retry_after_ms=refused.retry_after_ms)


def _encoded(answered: Answered) -> Response:
    if isinstance(answered, Reply):
        return Response(
            status=answered.status, headers=_JSON_HEADERS + answered.headers, body=encode(answered.value)
        )
    if isinstance(answered, Answer):
        content_type = (("content-type", answered.content_type),)
        return Response(status=answered.status, headers=content_type + answered.headers, body=answered.body)
    return answered


class _Told(msgspec.Struct, frozen=True):
    code: str | None = None
    retry_after_ms: int | None = None


def _told(response: Response) -> tuple[str | None, Response]:
    """Read the code of a problem that a room encoded itself, and add `Retry-After` if it lacks one."""
    if response.header("content-type") != PROBLEM_JSON:
        return None, response
    told = msgspec.json.decode(response.body, type=_Told)
    if told.retry_after_ms is None or response.header("retry-after") is not None:
        return told.code, response
    headers = (*response.headers, ("retry-after", retry_after(told.retry_after_ms)))
    return told.code, Response(status=response.status, headers=headers, body=response.body)


def _finished(request: Request, response: Response, request_id: str) -> Response:
    if request.root:
        response = _under(request.root, response)
    kept = () if response.header("cache-control") else _NOT_KEPT
    headers = (*response.headers, *kept, *_SAFE, ("x-request-id", request_id))
    is_head = request.method == "HEAD"
    if response.stream is not None:
        return Response(status=response.status, headers=headers, stream=None if is_head else response.stream)
    if response.status not in (204, 304):
        headers = (*headers, ("content-length", str(len(response.body))))
    return Response(status=response.status, headers=headers, body=b"" if is_head else response.body)


def _under(root: str, response: Response) -> Response:
    """The same response with links that begin with the prefix: `Location`, and the type of a problem."""
    headers = tuple(
        (name, root + value if name == "location" and value.startswith("/") else value)
        for name, value in response.headers
    )
    body = response.body
    if body.startswith(_PROBLEM_BEGINS) and response.header("content-type") == PROBLEM_JSON:
        body = b'{"type":"' + root.encode() + body.removeprefix(b'{"type":"')
    return Response(status=response.status, headers=headers, body=body, stream=response.stream)
