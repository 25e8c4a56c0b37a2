"""One request of a browser on its way to a page: which page, who asks, what was sent, and how it is rendered."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

import jinja2
import msgspec

from interlock.console import shown
from interlock.console.client import Api, OperationFacts, Refusal, Refused
from interlock.console.oidc import Providers
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire.approvals import InboxCounts
from interlock.wire.events import EventPage
from interlock.wire.http import Headers, Request, Response

HTML: Headers = (("content-type", "text/html; charset=utf-8"),)
FORM_FIELDS_MAX = 2000
ROWS = 50  # of one page of a list
_FAILURES_MAX = 10
_WINDOW_SECONDS = 60.0
_CLIENTS_MAX = 10_000

# Who may call an operation that checks roles itself, in the transaction that decides.
_DECIDED_INSIDE: Mapping[str, tuple[str, ...]] = {
    "approve_job": ("review",),
    "reject_job": ("review",),
    "withdraw_vote": ("review",),
    "ask_back": ("review",),
    "approve_step": ("review",),
    "issue_grant": ("review", "admin"),
}


def cookie_name(request: Request) -> str:
    """Over https a name that browsers keep for this host alone."""
    return "__Host-interlock" if request.scheme == "https" else "interlock"


def cookie_of(request: Request, name: str = "") -> str:
    """The cookie that a browser sent, by default the session token, or nothing.

    Two cookies of one name are as good as none. What other applications of this host keep there does not matter.
    """
    wanted = name or cookie_name(request)
    sent = (pair.partition("=") for pair in request.headers.get("cookie", "").split(";"))
    values = [value.strip() for found, _, value in sent if found.strip() == wanted]
    return values[0] if len(values) == 1 else ""


class TooManyFields(Refused):
    """A query or a form with more fields than any page has."""

    def __init__(self) -> None:
        detail = f"This has more than {FORM_FIELDS_MAX} fields, so nothing was done. Send fewer."
        super().__init__(Refusal(code="too_large", status=413, title="Too large", detail=detail))


class Fields:
    """What a query string or a form holds: names with one or several values; raises `TooManyFields`."""

    def __init__(self, text: str) -> None:
        if text.count("&") >= FORM_FIELDS_MAX:
            raise TooManyFields
        pairs = parse_qsl(text, keep_blank_values=True, errors="replace")
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def one(self, name: str, default: str = "") -> str:
        """The last value called `name`, without spaces around it."""
        values = self._values.get(name)
        return values[-1].strip() if values else default

    def text(self, name: str) -> str:
        """The last value called `name`, exactly, with the line ends that a browser adds taken off."""
        values = self._values.get(name)
        return values[-1].replace("\r\n", "\n") if values else ""

    def all(self, name: str) -> list[str]:
        """Every value called `name`."""
        return self._values.get(name, [])

    def words(self, name: str) -> list[str]:
        """Words that a person separated with commas or spaces."""
        return self.one(name).replace(",", " ").split()

    def number(self, name: str, default: str = "") -> int | str:
        """A whole number. A text that is none is kept as it is: the API refuses it."""
        text = self.one(name) or default
        return int(text) if text.isascii() and text.isdigit() else text

    def given(self, *names: str) -> dict[str, str]:
        """Those of these names that have a value."""
        return {name: value for name in names if (value := self.one(name))}


class Visit:
    """One request, with the person behind it. Pages get it, ask the API and answer with `page` or `redirect`."""

    def __init__(
        self,
        *,
        request: Request,
        path: Mapping[str, str],
        form: Fields,
        service: Service,
        api: Api,
        operations: Mapping[str, OperationFacts],
        known: Known | None,
        assets: Assets,
        attempts: Attempts,
        providers: Providers,
    ) -> None:
        self.request = request
        self.path = path
        self.query = Fields(request.query)
        self.form = form
        self.service = service
        self.api = api
        self.known = known
        self.position: int | None = None
        self._operations = operations
        self._assets = assets
        self.attempts = attempts
        self.providers = providers

    @property
    def now(self) -> datetime:
        return self.service.now()

    @property
    def here(self) -> str:
        """The page that was asked for, with its query, as a link to come back by."""
        return self.request.path + (f"?{self.request.query}" if self.request.query else "")

    @property
    def is_partial(self) -> bool:
        """Whether a page that is open asks for a part of itself."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def paging(self) -> dict[str, object]:
        """The parameters of a list: where its page begins, and how long it is."""
        return {"limit": ROWS, "cursor": self.query.one("cursor") or None}

    def outcome(self, texts: Mapping[str, str]) -> Notice | None:
        """What a page says after a form was carried out and the browser was sent back to the page.

        It is in the address. An address that another site made says nothing.
        """
        is_from_here = self.request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        text = texts.get(self.query.one("outcome")) if is_from_here else None
        return Notice(text=text) if text else None

    def may(self, operation_id: str) -> bool:
        """Whether the roles of who is signed in allow an operation. It is refused all the same if they do not."""
        roles = self.roles_for(operation_id)
        return self.known is not None and (not roles or any(role in self.known.roles for role in roles))

    def roles_for(self, operation_id: str) -> tuple[str, ...]:
        """The roles of which any one allows an operation; none: everybody may."""
        return _DECIDED_INSIDE.get(operation_id) or self._operations[operation_id].roles

    def link(self, path: str, **query: object) -> str:
        """A link to a page, under the prefix that this server is mounted at."""
        kept = {name: value for name, value in query.items() if value not in (None, "", False)}
        return self.request.root + path + (f"?{urlencode(kept)}" if kept else "")

    def with_query(self, **changed: object) -> str:
        """This page with some parameters changed; None takes one out."""
        now = {name: self.query.one(name) for name in self.query.names}
        return self.link(self.request.path, **(now | changed))

    def redirect(self, path: str, **query: object) -> Response:
        """Send the browser to a page, which it reads with GET."""
        return Response(status=303, headers=(("location", self.link(path, **query)),))

    async def page(self, template: str, *, notice: Notice | None = None, **context: Any) -> Response:
        """Render a page in the frame that all pages share; its status is that of the notice."""
        counts = await self._counts()
        status = notice.status if notice else 200
        return self.render(template, status=status, counts=counts, notice=notice, **context)

    def render(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """Render a template that needs nothing from the store."""
        text = self._assets.render(
            template,
            visit=self,
            who=self.known.who if self.known else None,
            tenant=self.known.tenant if self.known else None,
            root=self.request.root,
            url=self.link,
            may=self.may,
            now=self.now,
            **{"counts": None, **context},
        )
        return Response(status=status, headers=HTML, body=text.encode())

    async def note_position(self) -> None:
        """Note where the stream of events is, for a whole page: from there it goes on live."""
        if not self.is_partial and self.may("read_events"):
            self.position = (await self.api.ask("read_events", EventPage, query={"limit": 1})).next_after

    async def _counts(self) -> InboxCounts | None:
        if self.known is None or not self.may("count_inbox"):
            return None
        return await self.api.ask("count_inbox", InboxCounts)


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One page, or one thing that a form does. `public`: also for people who are not signed in.

    `operation` is the one of the API that it needs: a visitor who may not call that is neither shown the page nor
    offered the form.
    """

    path: str
    answer: Callable[[Visit], Awaitable[Response]]
    operation: str = ""
    method: str = "GET"
    public: bool = False


class Assets:
    """Templates, and the files that pages link to, each with a version in its address so that it is kept for ever."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        self.files = {
            str(path.relative_to(here / "static")): path.read_bytes()
            for path in sorted((here / "static").rglob("*"))
            if path.is_file()
        }
        self._env = jinja2.Environment(
            loader=jinja2.FileSystemLoader(here / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        cast("dict[str, Any]", self._env.filters).update(shown.FILTERS)
        cast("dict[str, Any]", self._env.globals).update(static=self.address, payload=shown.payload)
        self._versions = {name: _digest(data) for name, data in self.files.items()}

    def address(self, name: str) -> str:
        """Where a file is, below the prefix; it changes with the file."""
        return f"/console/static/{name}?v={self._versions[name]}"

    def render(self, template: str, **context: Any) -> str:
        return self._env.get_template(template).render(**context)


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()[:12]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What came of what a person did: shown in the `status` region, or as an `alert` if it did not happen."""

    text: str
    is_problem: bool = False
    refusal: Refusal | None = None
    status: int = 200


def notice_of(refusal: Refusal) -> Notice:
    """A refusal as pages say it."""
    return Notice(
        text=refusal.detail or refusal.title, is_problem=True, refusal=refusal, status=refusal.status
    )


def complaint(text: str) -> Notice:
    """What is wrong with a form that a person sent."""
    return Notice(text=text, is_problem=True, status=400)


class Attempts:
    """How often sign-in failed lately, by address: guessing is slowed down, and a person who mistypes is not."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, client: str | None) -> float:
        """How long this address must wait before it may try again."""
        began, count = self._failed.get(client or "", (0.0, 0))
        left = began + _WINDOW_SECONDS - time.monotonic()
        return left if count >= _FAILURES_MAX and left > 0 else 0.0

    def note(self, client: str | None) -> None:
        """Count one that failed."""
        now, name = time.monotonic(), client or ""
        began, count = self._failed.pop(name, (now, 0))
        self._failed[name] = (began, count + 1) if now - began < _WINDOW_SECONDS else (now, 1)
        if len(self._failed) > _CLIENTS_MAX:
            self._failed.popitem(last=False)
