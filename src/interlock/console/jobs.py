"""Jobs: finding one, what became of it and why, dead letters, and taking one back or letting it run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.console.client import Refused
from interlock.console.sentence import title_of
from interlock.console.timeline import moment_of
from interlock.console.visit import Notice, PageRoute, Visit, complaint, notice_of
from interlock.wire.effects import Effect
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.jobs import Job

_BATCH_MAX = 200
_BRIEF = 240
_FILTERS = ("q", "topic", "state")
# By state, how people call jobs in it.
STATES = {
    "APPROVAL": "Waiting for people",
    "PENDING": "Ready to run",
    "RUNNING": "Running",
    "FAILED": "Dead letters",
    "SUCCEEDED": "Done",
    "DENIED": "Denied",
    "CANCELLED": "Cancelled",
    "EXPIRED": "Expired",
}
_UNFINISHED = ("APPROVAL", "PENDING", "RUNNING", "FAILED")
# What a person did, as the page says it after the browser was sent back to it.
_OUTCOMES = {
    "retried": "It is queued again, with all its attempts.",
    "cancelled": "You cancelled it. Nobody will run it.",
    "reconciled": "What became of it is recorded.",
    "refreshed": "The request is under the current policy now.",
    "edited": "The request was changed.",
}


async def show_list(visit: Visit) -> Response:
    return await _list_page(visit)


async def retry_several(visit: Visit) -> Response:
    """Let dead letters run again: the one whose button was pressed, or all that were selected."""
    only = visit.form.one("only")
    chosen = [only] if only else visit.form.all("job")[:_BATCH_MAX]
    if not chosen:
        unselected = complaint("Nothing is selected: tick a dead letter, or press x on it.")
        return await _list_page(visit, notice=unselected)
    reason = visit.form.one("reason")
    return await _list_page(visit, answers=[await _retried(visit, job_id, reason) for job_id in chosen])


async def _retried(visit: Visit, job_id: str, reason: str) -> dict[str, Any]:
    try:
        job = await visit.api.ask("retry_job", Job, path={"job_id": job_id}, body={"reason": reason})
    except Refused as refused:
        return {"job_id": job_id, "refusal": refused.refusal, "job": None}
    return {"job_id": job_id, "refusal": None, "job": job}


async def _list_page(
    visit: Visit,
    *,
    notice: Notice | None = None,
    answers: list[dict[str, Any]] | None = None,
) -> Response:
    filters = visit.query.given(*_FILTERS)
    query = {**filters, **visit.paging}
    try:
        found = await visit.api.ask("list_jobs", Page[Job], query=query)
    except Refused as refused:
        if refused.refusal.code != "invalid_request":
            raise
        # A filter that cannot be read finds nothing, and says why.
        found, notice = Page[Job](items=()), notice_of(refused.refusal)
    return await visit.page(
        "jobs.html",
        items=[(job, title_of(job), error_in_brief(job)) for job in found.items],
        next_cursor=found.next_cursor,
        filters=filters,
        states=STATES,
        notice=notice,
        answers=answers or [],
    )


async def show(visit: Visit) -> Response:
    return await _page(visit, notice=visit.outcome(_OUTCOMES))


async def retry(visit: Visit) -> Response:
    return await _done(visit, "retry_job", {"reason": visit.form.one("reason")}, "retried")


async def cancel(visit: Visit) -> Response:
    reason = visit.form.one("reason")
    if not reason:
        return await _page(visit, notice=complaint("Cancelling needs a reason: others will read it."))
    return await _done(visit, "cancel_job", {"reason": reason}, "cancelled")


async def reconcile(visit: Visit) -> Response:
    """Say what became of one's own call, whose outcome nobody knows."""
    body = {"outcome": visit.form.one("outcome"), "evidence": visit.form.one("evidence")}
    return await _done(visit, "reconcile_job", body, "reconciled")


async def _done(visit: Visit, operation_id: str, body: Mapping[str, Any], outcome: str) -> Response:
    try:
        job = await visit.api.ask(operation_id, Job, path=visit.path, body=body)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"/console/jobs/{job.id}", outcome=outcome)


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    job = await visit.api.ask("get_job", Job, path=visit.path)
    query = visit.paging
    history = await visit.api.ask("job_history", Page[AuditEntry], path=visit.path, query=query)
    effect = await _effect_of(visit, job)
    is_in_doubt = effect is not None and effect.state == "AMBIGUOUS"
    is_own = visit.known is not None and job.submitted_by == visit.known.principal
    return await visit.page(
        "job.html",
        job=job,
        title=title_of(job),
        notice=notice,
        effect=effect,
        is_in_doubt=is_in_doubt,
        may_reconcile=is_in_doubt and is_own and visit.may("reconcile_job"),
        may_retry=job.state == "FAILED" and not is_in_doubt and visit.may("retry_job"),
        may_cancel=job.state in _UNFINISHED and visit.may("cancel_job"),
        moments=[(moment_of(entry), entry.outcome not in (None, "", "done")) for entry in history.items],
        next_cursor=history.next_cursor,
    )


async def _effect_of(visit: Visit, job: Job) -> Effect | None:
    """The effect of a gated call, if it has begun."""
    if job.executor != "caller" or not job.attempt:
        return None
    try:
        return await visit.api.ask("get_effect", Effect, path={"action_id": f"call:{job.id}"})
    except Refused as refused:
        if refused.refusal.status != 404:
            raise
        return None


def error_in_brief(job: Job) -> str:
    """What a worker said went wrong, in one line; the job's page shows all of it."""
    error = job.error
    if isinstance(error, Mapping):
        fields = cast("Mapping[str, Any]", error)
        named = (fields.get(name) for name in ("message", "detail", "error", "type", "code"))
        error = next((text for text in named if isinstance(text, str) and text), None)
    if not isinstance(error, str):
        return ""
    line = " ".join(error.split())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"


_ONE = "/console/jobs/{job_id}"
PAGES = (
    PageRoute(path="/console/jobs", operation="list_jobs", answer=show_list),
    PageRoute(method="POST", path="/console/jobs", operation="retry_job", answer=retry_several),
    PageRoute(path=_ONE, operation="get_job", answer=show),
    PageRoute(method="POST", path=_ONE + "/retry", operation="retry_job", answer=retry),
    PageRoute(method="POST", path=_ONE + "/cancel", operation="cancel_job", answer=cancel),
    PageRoute(method="POST", path=_ONE + "/reconcile", operation="reconcile_job", answer=reconcile),
)
