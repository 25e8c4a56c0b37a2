"""Answers browsers: finds the page, knows who is signed in, refuses what comes from another site, and never fails.

A page is a function from a `Visit` to a `Response`. It reads and decides through the API alone, so what it may show
and do is decided where it is for everybody. Every answer forbids scripts and styles that are not files of ours, and
to be shown inside another site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from time import perf_counter
from urllib.parse import urlsplit

import msgspec

from interlock.console.client import Api, OperationFacts, Refusal, Refused, Respond
from interlock.console.oidc import Providers
from interlock.console.pages import PAGES
from interlock.console.visit import Assets, Attempts, Fields, PageRoute, TooManyFields, Visit, cookie_of
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import CommandFailed, Fault, LockBusy, OutcomeUnknown, Overloaded
from interlock.kernel.storage import StoreDown
from interlock.rooms.identity.refusals import Unauthenticated
from interlock.service import sessions
from interlock.service.keyring import Known
from interlock.service.logs import Log
from interlock.service.router import MethodNotAllowed, NoRoute, Router
from interlock.service.service import Service
from interlock.wire.http import Headers, NotDecodable, Request, Response, is_page
from interlock.wire.problem import Problem

_PUBLIC_FORM_BYTES_MAX = 16 * 1024
_FORM = "application/x-www-form-urlencoded"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types default"
)
# Of every answer that does not say otherwise itself.
_SAFE: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_FRONT = ("/", "/console", "/console/")
_HALF_DONE = (
    "The store went away in the middle: some of what you asked for was done, or may have been. "
    "Look at it again when the store answers, before you repeat it."
)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Console:
    """The pages of one service."""

    def __init__(
        self, service: Service, respond: Respond, operations: Mapping[str, OperationFacts], log: Log
    ) -> None:
        """`respond` is the API: it is called as any client would call it."""
        self._service = service
        self._respond = respond
        self._operations = operations
        self._log = log
        self._assets = Assets()
        self._attempts = Attempts()
        self._providers = Providers(service.settings)
        self._router: Router[PageRoute] = Router(
            ((page.method, page.path, page) for page in PAGES),
            spanning=("file", "key", "action_id"),
        )
        self._away_since: datetime | None = None

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        trace = _Trace(request)
        try:
            response = await self._answered(request, trace)
            if trace.known is not None:  # who it is was read from the store
                self._away_since = None
        except Exception as error:  # noqa: BLE001 - the outermost edge: whatever it is, the browser gets a page
            response = self._failed(request, trace, error)
        response = _finished(request, response, trace.id)
        self._record(request, response, trace)
        return response

    def refuse(self, request: Request, error: Exception) -> Response:
        """Answer a request that the server could not even read whole."""
        trace = _Trace(request)
        response = _finished(request, self._failed(request, trace, error), trace.id)
        self._record(request, response, trace)
        return response

    async def _answered(self, request: Request, trace: _Trace) -> Response:
        is_reading = request.method in ("GET", "HEAD")
        is_file = request.path.startswith("/console/static/")
        if is_file or request.path in _FRONT:
            if not is_reading:
                raise MethodNotAllowed(request.method, "GET, HEAD")
            return self._file(request) if is_file else _front(request)
        try:
            route, path = self._router.find(request.method, request.path)
        except MethodNotAllowed as only_a_form:
            if not is_reading or "POST" not in only_a_form.allowed:
                raise
            return _page_of_form(request)
        trace.route = route.path
        if not is_reading:
            _check_same_origin(request)
        token = cookie_of(request)
        trace.known = known = await self._known(token)
        if known is None and not route.public:
            return self._to_sign_in(request)
        form = await _form(request, is_public=known is None)
        visit = self._visit(request, path, form, known, token if known else "")
        trace.api = visit.api
        _check_allowed(visit, route)
        await visit.note_position()  # before the page reads anything: what happens from now on is news to it
        return await route.answer(visit)

    async def _known(self, token: str) -> Known | None:
        if not token:
            return None
        try:
            return await sessions.see(self._service, token)
        except Unauthenticated:
            return None

    def _visit(
        self, request: Request, path: Mapping[str, str], form: Fields, known: Known | None, token: str
    ) -> Visit:
        return Visit(
            request=request,
            path=path,
            form=form,
            service=self._service,
            api=Api(self._respond, self._operations, token=token, request=request),
            operations=self._operations,
            known=known,
            assets=self._assets,
            attempts=self._attempts,
            providers=self._providers,
        )

    def _to_sign_in(self, request: Request) -> Response:
        visit = self._visit(request, {}, Fields(""), None, "")
        back = visit.here if request.method == "GET" else _page_before(request)
        if visit.is_partial:
            to = visit.link("/console/sign-in", next=back)
            return Response(status=401, headers=(("hx-redirect", to),))
        return visit.redirect("/console/sign-in", next=back)

    def _failed(self, request: Request, trace: _Trace, error: Exception) -> Response:
        """The page that says why there is no page."""
        refusal = self._refusal(request, trace, error)
        is_away = refusal.code in ("store_unavailable", "admission_unavailable", "outcome_unknown")
        if is_away and self._away_since is None:
            self._away_since = self._service.now()
        if isinstance(error, TooManyFields):
            request = msgspec.structs.replace(request, query="")
        if is_away and trace.api is not None and trace.api.has_changed:
            refusal = msgspec.structs.replace(refusal, detail=_HALF_DONE)
        visit = self._visit(request, {}, Fields(""), trace.known, "")
        if refusal.status == 401:
            return self._to_sign_in(request)
        if refusal.code == "cross_site" and "text/html" not in request.headers.get("accept", ""):
            document = {"type": "/problems/cross_site", "title": refusal.title, "status": 403}
            document |= {"detail": refusal.detail, "code": refusal.code, "retryable": False}
            headers: Headers = (("content-type", "application/problem+json"),)
            return Response(status=403, headers=headers, body=msgspec.json.encode(document))
        response = visit.render(
            "problem.html",
            status=refusal.status,
            refusal=refusal,
            request_id=trace.id,
            away_since=self._away_since if is_away else None,
        )
        more: Headers = (("allow", error.allowed),) if isinstance(error, MethodNotAllowed) else ()
        if refusal.retry_after_ms is not None:
            more = (("retry-after", str(max(1, -(-refusal.retry_after_ms // 1000)))),)
        return msgspec.structs.replace(response, headers=(*response.headers, *more))

    def _record(self, request: Request, response: Response, trace: _Trace) -> None:
        self._log.request(
            request_id=trace.id,
            method=request.method,
            route=trace.route,
            status=response.status,
            duration_ms=round((perf_counter() - trace.begun) * 1000, 3),
            tenant=trace.known.tenant if trace.known else None,
            principal=trace.known.principal if trace.known else None,
            client=request.client,
        )

    def _refusal(self, request: Request, trace: _Trace, error: Exception) -> Refusal:
        match error:
            case Refused():
                return error.refusal
            case Exception(problem=Problem() as found):  # The body, or what the head says of it, is refused.
                names = ("code", "title", "status", "detail")
                return Refusal(**{name: getattr(found, name) for name in names}, fields=found.fields)
            case NoRoute() | NotDecodable():
                return Refusal(
                    code="not_found", status=404, title="No such page", detail="There is no such page."
                )
            case MethodNotAllowed():
                return Refusal(code="method_not_allowed", status=405, title="Not possible", detail=str(error))
            case Fault() | StoreDown() if not isinstance(error, CommandFailed):
                return _fault(error)
            case _:
                self._log.fault(error, request=request, request_id=trace.id, route=trace.route)
                detail = "Something unexpected broke on our side; quote the request id when you report it."
                return Refusal(code="internal_error", status=500, title="Internal error", detail=detail)

    def _file(self, request: Request) -> Response:
        name = request.path.removeprefix("/console/static/")
        data = self._assets.files.get(name)
        if data is None:
            raise NoRoute(without_slash=False)
        kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        headers = (
            ("content-type", f"{kind}; charset=utf-8"),
            ("cache-control", "public, max-age=31536000, immutable"),
            # Evidence is shown in a sandbox, which counts as another origin.
            ("cross-origin-resource-policy", "cross-origin"),
        )
        return Response(status=200, headers=headers, body=data)


class _Trace:
    """What is known of a request so far, for the log."""

    __slots__ = ("api", "begun", "id", "known", "route")

    def __init__(self, request: Request) -> None:
        self.begun = perf_counter()
        sent = request.headers.get("x-request-id", "")
        self.id = sent if _REQUEST_ID.fullmatch(sent) else new_id("req")
        self.route = "none"
        self.known: Known | None = None
        self.api: Api | None = None


def _fault(error: Fault | StoreDown) -> Refusal:
    """What a page says when signing in or out, or finding out who asks, met a fault."""
    match error:
        case OutcomeUnknown():
            code, title, detail = "outcome_unknown", "The store is away", _HALF_DONE
        case Overloaded():
            code, title, detail = (
                "overloaded",
                "Too much at once",
                "Nothing was changed. Try again in a moment.",
            )
        case LockBusy():
            code, title, detail = "lock_busy", "Busy", "Nothing was changed. Try again in a moment."
        case _:
            code, title = "store_unavailable", "The store is away"
            detail = "Nothing was changed. This page works again when the store answers."
    wait_ms = max(1, round(error.retry_after_seconds * 1000))
    return Refusal(code=code, status=503, title=title, detail=detail, retryable=True, retry_after_ms=wait_ms)


def _front(request: Request) -> Response:
    """Browsers go to the inbox; other clients are told where things are."""
    if request.path != "/" or "text/html" in request.headers.get("accept", ""):
        to = "/console/inbox" if request.path != "/" else "/console/"
        return Response(status=303, headers=(("location", request.root + to),))
    links = {name: request.root + path for name, path in _LINKS.items()}
    return Response(
        status=200, headers=(("content-type", "application/json"),), body=msgspec.json.encode(links)
    )


_LINKS = {
    "console": "/console/",
    "api": "/api/v1",
    "openapi": "/openapi.json",
    "docs": "/docs",
    "health": "/healthz",
    "ready": "/readyz",
    "metrics": "/metrics",
}


def _check_same_origin(request: Request) -> None:
    """Refuse an unsafe request unless the browser says that a page of ours made it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        is_ours = site == "same-origin"
    else:
        host = request.headers.get("host")
        is_ours = bool(host) and request.headers.get("origin") == f"{request.scheme}://{host}"
    if not is_ours:
        detail = "This came from another site, so nothing was done. Open the console itself and do it there."
        raise Refused(Refusal(code="cross_site", status=403, title="From another site", detail=detail))


def _check_allowed(visit: Visit, route: PageRoute) -> None:
    """A page that only leads to an operation is not for people who may not call it."""
    if not route.operation or visit.may(route.operation):
        return
    detail = f"This needs the role {' or '.join(visit.roles_for(route.operation))}; ask an admin for it."
    raise Refused(Refusal(code="forbidden", status=403, title="Not allowed", detail=detail))


async def _form(request: Request, *, is_public: bool) -> Fields:
    """What a form sent. A visitor who is not signed in may send no more than a sign-in needs."""
    if request.method in ("GET", "HEAD"):
        return Fields("")
    # A length that is not told in advance is told as none, too.
    announced = request.headers.get("content-length", "0" if request.read is None else "")
    if is_public and (not announced.isdecimal() or int(announced) > _PUBLIC_FORM_BYTES_MAX):
        raise Refused(
            Refusal(code="too_large", status=413, title="Too large", detail="That is too large to sign in.")
        )
    if request.headers.get("content-type", _FORM).partition(";")[0].strip().lower() != _FORM:
        raise Refused(
            Refusal(code="unsupported_media_type", status=415, title="Not a form", detail="Send a form.")
        )
    body = (await request.whole()).body
    try:
        return Fields(body.decode())
    except ValueError:
        raise Refused(
            Refusal(
                code="invalid_request", status=400, title="Not readable", detail="The form is not readable."
            )
        ) from None


def _page_of_form(request: Request) -> Response:
    """A page that answered a form stays open where the form was sent; read from there, it is the page of the form."""
    page = request.root + request.path.rpartition("/")[0] + (f"?{request.query}" if request.query else "")
    return Response(status=303, headers=(("location", page),))


def _page_before(request: Request) -> str:
    """The page from which a form was sent, to come back to after signing in."""
    try:
        path = urlsplit(request.headers.get("referer", "")).path.removeprefix(request.root)
    except ValueError:
        path = ""
    return path if is_page(path) else "/console/inbox"


def _finished(request: Request, response: Response, request_id: str) -> Response:
    own = {name for name, _ in response.headers}
    headers = (*response.headers, *((name, value) for name, value in _SAFE.items() if name not in own))
    headers = (*headers, ("x-request-id", request_id))
    if request.method == "HEAD":
        return Response(status=response.status, headers=headers)
    if response.stream is not None:
        return Response(status=response.status, headers=headers, stream=response.stream)
    length = (("content-length", str(len(response.body))),) if response.status not in (204, 304) else ()
    return Response(status=response.status, headers=headers + length, body=response.body)
