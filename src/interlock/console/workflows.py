"""Workflows with their steps, and how many runs each scope may have at once."""

from __future__ import annotations

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.wire.admission import ClearedLimit, Limit, Limits
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.workflows import Workflow

_LIMITS_BESIDE = 200
_OUTCOMES = {
    "set": "The limit is set. It applies from the next start on.",
    "cleared": "The limit was removed. From the next start on, only the tenant's limit applies.",
}


async def show(visit: Visit) -> Response:
    notice = visit.outcome(_OUTCOMES)
    return await (_limits if visit.query.one("tab") == "limits" else _workflows)(visit, notice=notice)


async def set_limit(visit: Visit) -> Response:
    """Set a scope's limit, or, asked to, take it away."""
    scope = visit.form.one("scope")
    try:
        if visit.form.one("do") == "clear":
            await visit.api.ask("clear_limit", ClearedLimit, path={"scope": scope})
            return visit.redirect("/console/workflows", tab="limits", outcome="cleared")
        body = {"max_concurrent_runs": visit.form.number("max_concurrent_runs")}
        await visit.api.ask("set_limit", Limit, path={"scope": scope}, body=body)
    except Refused as refused:
        return await _limits(visit, notice=notice_of(refused.refusal))
    return visit.redirect("/console/workflows", tab="limits", outcome="set")


async def _workflows(visit: Visit, *, notice: Notice | None = None) -> Response:
    found = await visit.api.ask("list_workflows", Page[Workflow], query=visit.paging)
    limits = await visit.api.ask("list_limits", Limits, query={"limit": _LIMITS_BESIDE})
    return await visit.page(
        "workflows.html",
        workflows=found.items,
        next_cursor=found.next_cursor,
        limits={limit.scope: limit for limit in limits.items},
        are_all=limits.next_cursor is None,
        notice=notice,
    )


async def _limits(visit: Visit, *, notice: Notice | None = None) -> Response:
    found = await visit.api.ask("list_limits", Limits, query=visit.paging)
    return await visit.page(
        "limits.html",
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
