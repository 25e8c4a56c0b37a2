"""Workflows with their steps, and how many runs each scope may have at once."""

from __future__ import annotations

from typing import Any

from interlock.console.client import Refused
from interlock.console.route import PageRoute
from interlock.console.visit import Notice, Visit, notice_of
from interlock.wire.admission import ClearedLimit, Limit, Limits
from interlock.wire.http import Response
from interlock.wire.pages import Page
from interlock.wire.workflows import Workflow

_PAGE = 50
_LIMITS_BESIDE = 200
_OUTCOMES = {
    "set": "The limit is set; it holds from the next start on.",
    "cleared": "The limit is taken away; the tenant's alone holds from the next start on.",
}


async def show(visit: Visit) -> Response:
    text = _OUTCOMES.get(visit.outcome)
    notice = Notice(text=text) if text else None
    return await (_limits if visit.query.one("tab") == "limits" else _workflows)(visit, notice=notice)


async def set_limit(visit: Visit) -> Response:
    """Set a scope's limit, or, asked to, take it away."""
    scope, most = visit.form.one("scope"), visit.form.one("max_concurrent_runs")
    try:
        if visit.form.one("do") == "clear":
            await visit.api.ask("clear_limit", ClearedLimit, path={"scope": scope})
            return visit.redirect("/console/workflows", tab="limits", outcome="cleared")
        # What is no number is sent as it is, and refused there.
        number: Any = int(most) if most.isascii() and most.isdigit() else most
        body = {"max_concurrent_runs": number}
        await visit.api.ask("set_limit", Limit, path={"scope": scope}, body=body)
    except Refused as refused:
        return await _limits(visit, status=refused.refusal.status, notice=notice_of(refused.refusal))
    return visit.redirect("/console/workflows", tab="limits", outcome="set")


async def _workflows(visit: Visit, *, notice: Notice | None = None) -> Response:
    asked = {"limit": _PAGE, "cursor": visit.query.one("cursor") or None}
    found = await visit.api.ask("list_workflows", Page[Workflow], query=asked)
    limits = await visit.api.ask("list_limits", Limits, query={"limit": _LIMITS_BESIDE})
    return await visit.page(
        "workflows.html",
        workflows=found.items,
        next_cursor=found.next_cursor,
        limits={limit.scope: limit for limit in limits.items},
        are_all=limits.next_cursor is None,
        notice=notice,
    )


async def _limits(visit: Visit, *, status: int = 200, notice: Notice | None = None) -> Response:
    asked = {"limit": _PAGE, "cursor": visit.query.one("cursor") or None}
    found = await visit.api.ask("list_limits", Limits, query=asked)
    return await visit.page(
        "limits.html",
        status=status,
        limits=found,
        next_cursor=found.next_cursor,
        scope=visit.form.one("scope") or visit.query.one("scope"),
        most=visit.form.one("max_concurrent_runs"),
        notice=notice,
    )


PAGES = (
    PageRoute(path="/console/workflows", operation="list_workflows", answer=show),
    PageRoute(method="POST", path="/console/workflows", operation="set_limit", answer=set_limit),
)
