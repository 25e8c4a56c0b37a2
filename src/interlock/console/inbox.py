"""The inbox: what waits for the person who is signed in, the most urgent first, and decisions on several at once.

What the inbox shows is in its address. A view is such an address with a name; a person's views are kept in a cookie of
their browser.
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

from interlock.console.client import Refused
from interlock.console.sentence import title_of
from interlock.console.sign_in import cookie
from interlock.console.visit import PageRoute, Visit, cookie_name, cookie_of
from interlock.wire.approvals import Inbox, Review
from interlock.wire.http import Response

_BATCH_MAX = 200
_FILTERS = ("topic", "env", "by", "q", "order")
_SHOWN = (*_FILTERS, "show")
_VIEWS_MAX = 12
_VIEWS_BYTES_MAX = 3000  # browsers refuse a cookie of more than 4096
_VIEW_NAME_MAX = 40
_YEAR = 365 * 24 * 60 * 60


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A name for what the inbox shows under these parameters of its address."""

    name: str
    query: dict[str, str]


class _Views(msgspec.Struct, frozen=True, kw_only=True):
    """What the cookie holds: views, and of whom, so that they are shown to no other person of the browser."""

    owner: str
    views: list[View]


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def decide(visit: Visit) -> Response:
    """Approve or reject every request that was selected, each as it was shown; one answer for each."""
    verb = "reject" if visit.form.one("decision") == "reject" else "approve"
    reason = visit.form.one("reason")
    chosen = list(dict.fromkeys(visit.form.all("job")))
    if not chosen:
        return await _page(
            visit, status=400, complaint="Nothing is selected: tick a request, or press x on it."
        )
    if len(chosen) > _BATCH_MAX:
        return await _page(visit, status=413, complaint=f"Select at most {_BATCH_MAX}. Nothing was decided.")
    if verb == "reject" and not reason:
        return await _page(visit, status=400, complaint="Rejecting needs a reason: write one above the list.")
    answers = [
        await _decided(visit, verb, job_id, visit.form.one(f"hash.{job_id}"), reason) for job_id in chosen
    ]
    return await _page(visit, answers=answers)


async def keep_view(visit: Visit) -> Response:
    """Give what the inbox shows a name, or, asked to, forget one."""
    name, shown = visit.form.one("name"), visit.form.given(*_SHOWN)
    views = [view for view in _views(visit) if view.name != name]
    if visit.form.one("do") != "forget":
        if not name or len(name) > _VIEW_NAME_MAX:
            return await _page(
                visit, status=400, complaint=f"Give a name of 1 to {_VIEW_NAME_MAX} characters."
            )
        views.append(View(name=name, query=shown))
    kept = base64.urlsafe_b64encode(msgspec.json.encode(_Views(owner=_owner(visit), views=views))).decode()
    if len(views) > _VIEWS_MAX or len(kept) > _VIEWS_BYTES_MAX:
        return await _page(visit, status=400, complaint="There are too many views; forget one first.")
    response = visit.redirect("/console/inbox", **shown)
    header = ("set-cookie", cookie(visit, kept, _YEAR, name=_views_cookie(visit)))
    return msgspec.structs.replace(response, headers=(*response.headers, header))


def _views(visit: Visit) -> list[View]:
    """The views of this person. A cookie that cannot be read holds none."""
    try:
        kept = base64.urlsafe_b64decode(cookie_of(visit.request, _views_cookie(visit)))
        found = msgspec.json.decode(kept, type=_Views)
    except (ValueError, msgspec.MsgspecError):
        return []
    return found.views[:_VIEWS_MAX] if found.owner == _owner(visit) else []


def _views_cookie(visit: Visit) -> str:
    return f"{cookie_name(visit.request)}-views"


def _owner(visit: Visit) -> str:
    known = visit.known
    return hashlib.sha256(f"{known.tenant}\n{known.principal}".encode()).hexdigest()[:16] if known else ""


async def _decided(visit: Visit, verb: str, job_id: str, job_hash: str, reason: str) -> dict[str, object]:
    body = {"reason": reason, "job_hash": job_hash}
    try:
        review = await visit.api.ask(f"{verb}_job", Review, path={"job_id": job_id}, body=body)
    except Refused as refused:
        return {"job_id": job_id, "refusal": refused.refusal, "review": None}
    return {"job_id": job_id, "refusal": None, "review": review}


async def _page(
    visit: Visit, *, status: int = 200, complaint: str = "", answers: list[dict[str, object]] | None = None
) -> Response:
    filters = visit.query.given(*_FILTERS)
    is_all = visit.query.one("show") == "all"
    found = await visit.api.ask(
        "list_inbox",
        Inbox,
        query={**filters, "mine": not is_all, **visit.paging},
    )
    return visit.render(
        "inbox.html",
        status=status,
        counts=found.counts,
        items=[(item, title_of(item)) for item in found.items],
        next_cursor=found.next_cursor,
        filters=filters,
        is_all=is_all,
        views=_views(visit),
        shown=visit.query.given(*_SHOWN),
        complaint=complaint,
        answers=answers or [],
    )


PAGES = (
    PageRoute(path="/console/inbox", operation="list_inbox", answer=show),
    PageRoute(method="POST", path="/console/inbox", operation="approve_job", answer=decide),
    PageRoute(method="POST", path="/console/inbox/views", operation="list_inbox", answer=keep_view),
)
