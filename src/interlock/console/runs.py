"""Runs: which workflows are running, who holds their slots, how far the steps are; approve a step, cancel, rerun."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.console.client import Refused
from interlock.console.timeline import Moment, moment_of
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.kernel.ids import new_id
from interlock.wire.admission import Limits, Run
from interlock.wire.approvals import ApprovalRequest, Review
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.workflows import RunStep, RunWithSteps, Timeline

_TIMELINE_MAX = 200
_FILTERS = ("state", "workflow")
_STATES = ("running", "succeeded", "failed", "cancelled", "lost")
_WORDS = {
    "run_start": "started the run",
    "run_renew": "kept its slot",
    "run_complete": "finished the run",
    "run_succeeded": "finished the run",
    "run_fail": "ended the run as failed",
    "run_failed": "ended the run as failed",
    "run_cancel": "cancelled the run",
    "run_cancelled": "cancelled the run",
    "run_lose": "took the slot back, because nobody renewed it",
}
_OUTCOMES = {
    "approved": "You approved the step.",
    "vote_recorded": "Your yes is counted; more people are needed.",
    "already_approved": "The step was approved already; nothing changed.",
    "cancelled": "The run is cancelled and its slot is free.",
    "rerun": "This is the new run. Earlier steps kept their results.",
}


async def show(visit: Visit) -> Response:
    filters = visit.query.given(*_FILTERS)
    asked = {**filters, **visit.paging}
    if filters.get("state") not in (None, *_STATES):
        asked["state"] = None
    found = await visit.api.ask("list_runs", Page[Run], query=asked)
    gate = await visit.api.ask("list_limits", Limits, query={"limit": 1})
    return await visit.page(
        "runs.html",
        runs=found.items,
        next_cursor=found.next_cursor,
        gate=gate,
        filters=filters,
        states=_STATES,
    )


async def show_one(visit: Visit) -> Response:
    return await _one(visit, notice=visit.outcome(_OUTCOMES))


async def approve_step(visit: Visit) -> Response:
    body = {"reason": visit.form.one("reason"), "job_hash": visit.form.one("job_hash") or None}
    try:
        review = await visit.api.ask("approve_step", Review, path=visit.path, body=body)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_here(visit), outcome=review.outcome)


async def cancel(visit: Visit) -> Response:
    fence = visit.form.one("fence")
    body = {
        "reason": visit.form.one("reason"),
        "fence": int(fence) if fence.isascii() and fence.isdigit() else None,
    }
    try:
        await visit.api.ask("cancel_run", Run, path={"run_id": visit.path["run_id"]}, body=body)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_here(visit), outcome="cancelled")


async def rerun(visit: Visit) -> Response:
    """Start the run again. The form carries a key of its own, so that to send it twice starts one."""
    body = {"from_step": visit.form.one("from_step")}
    key = visit.form.one("key") or new_id("form")
    try:
        run = await visit.api.ask("rerun_run", Run, path=visit.path, body=body, once=key)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"/console/runs/{run.run_id}", outcome="rerun")


async def _one(visit: Visit, *, notice: Notice | None = None) -> Response:
    path = {"run_id": visit.path["run_id"]}
    run = await visit.api.ask("get_run", RunWithSteps, path=path)
    timeline = await visit.api.ask("run_timeline", Timeline, path=path)
    return await visit.page(
        "run.html",
        run=run,
        steps=run.steps,
        questions=await _questions(visit, run.steps),
        first_again=_first_undone(run.steps),
        may_end=_may_end(visit, run),
        timeline=_moments(timeline, run.steps),
        untold=max(0, len(timeline.items) - _TIMELINE_MAX),
        key=new_id("form"),
        notice=notice,
    )


async def _questions(visit: Visit, steps: tuple[RunStep, ...]) -> dict[str, ApprovalRequest]:
    """What is asked at each step that waits for people; the decision carries the hash that is shown with it."""
    if not visit.may("get_approval"):
        return {}
    waiting = [step for step in steps if step.kind == "approval" and step.state == "running" and step.job_id]
    return {
        step.id: await visit.api.ask("get_approval", ApprovalRequest, path={"job_id": str(step.job_id)})
        for step in waiting
    }


def _may_end(visit: Visit, run: RunWithSteps) -> bool:
    """The principal that started it is told its fence; any other one speaks for it as an operator."""
    is_operator = visit.known is not None and "operate" in visit.known.roles
    return visit.may("cancel_run") and (run.fence != 0 or is_operator)


def _first_undone(steps: tuple[RunStep, ...]) -> str:
    return next((step.id for step in steps if step.state != "succeeded"), steps[0].id if steps else "")


def _moments(timeline: Timeline, steps: tuple[RunStep, ...]) -> list[dict[str, Any]]:
    """The newest of what happened, the oldest first, each with the step that it was about."""
    names = {step.job_id: step.id for step in steps if step.job_id}
    told: list[dict[str, Any]] = []
    for entry in timeline.items[-_TIMELINE_MAX:]:
        moment: Moment = moment_of(entry)
        if entry.action in _WORDS:
            moment = msgspec.structs.replace(moment, words=_WORDS[entry.action])
        told.append({"moment": moment, "step": names.get(entry.subject or "")})
    return told


def _here(visit: Visit) -> str:
    return f"/console/runs/{visit.path['run_id']}"


_ONE = "/console/runs/{run_id}"
PAGES = (
    PageRoute(path="/console/runs", operation="list_runs", answer=show),
    PageRoute(path=_ONE, operation="get_run", answer=show_one),
    PageRoute(
        method="POST", path=_ONE + "/steps/{step}/approve", operation="approve_step", answer=approve_step
    ),
    PageRoute(method="POST", path=_ONE + "/cancel", operation="cancel_run", answer=cancel),
    PageRoute(method="POST", path=_ONE + "/rerun", operation="rerun_run", answer=rerun),
)
