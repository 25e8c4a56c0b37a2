"""Conflicts: who collided over what, the safest next step, and how it is settled; and what keeps colliding."""

from __future__ import annotations

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, complaint, notice_of
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.jobs import Job
from interlock.wire.shared import Conflict, Patterns, TargetState

_PATTERNS_SHOWN = 20
KINDS = {
    "stale_fence": "A late writer came back",
    "target_changed_after_draft": "The target changed after the draft",
    "approval_on_old_version": "An approval of an old version",
    "lease_expired_with_result_pending": "A lease ran out with its result pending",
    "duplicate_work": "Two did the same work",
    "approve_reject_race": "One approved, another rejected",
    "human_edit_during_lease": "A person changed what was leased",
}
# By resolution: the words on its button, and what it says.
RESOLUTIONS = {
    "keep_first": ("Keep the first", "the first side's version stands"),
    "keep_second": ("Keep the second", "the later side's version stands"),
    "merge": ("Merge", "both were brought together"),
    "retry": ("Do it again", "what was refused is to be done again"),
    "discard": ("Discard", "what it affects is given up"),
}
# By what a resolution carries out, as a sentence.
FOLLOW_UPS = {
    "retry_job": "Puts the dead letter back in line.",
    "ask_again": "Asks people again, on the version that is current.",
    "cancel_job": "Cancels the job.",
    "retry_effect": "Records that the effect did not happen, so that it may run again. Your note is the evidence.",
    "settle_lease": "The lease goes on.",
    "end_lease": "Ends the lease.",
}


async def show_list(visit: Visit) -> Response:
    state = visit.query.one("state", "open")
    kind = visit.query.one("kind")
    found = await visit.api.ask(
        "list_conflicts",
        Page[Conflict],
        query={
            "state": state if state in ("open", "resolved") else None,
            "kind": kind if kind in KINDS else None,
            **visit.paging,
        },
    )
    patterns = await visit.api.ask("conflict_patterns", Patterns)
    return await visit.page(
        "conflicts.html",
        items=found.items,
        next_cursor=found.next_cursor,
        patterns=patterns.items[:_PATTERNS_SHOWN],
        examined=patterns.examined,
        kinds=KINDS,
        state=state,
        kind=kind,
    )


async def show(visit: Visit) -> Response:
    return await _page(visit, notice=visit.outcome({"resolved": "You settled it."}))


async def resolve(visit: Visit) -> Response:
    note = visit.form.one("note")
    if not note:
        return await _page(
            visit, notice=complaint("Say in the note how it was settled: others will read it.")
        )
    body = {"resolution": visit.form.one("resolution"), "note": note}
    try:
        conflict = await visit.api.ask("resolve_conflict", Conflict, path=visit.path, body=body)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"/console/conflicts/{conflict.id}", outcome="resolved")


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    conflict = await visit.api.ask("get_conflict", Conflict, path=visit.path)
    affected = conflict.affected
    return await visit.page(
        "conflict.html",
        conflict=conflict,
        kind=KINDS.get(conflict.kind, conflict.kind.replace("_", " ")),
        jobs=[job for job_id in affected.jobs[:5] if (job := await _job(visit, job_id))],
        target=await visit.api.ask("get_target", TargetState, path={"key": conflict.target}),
        resolutions=RESOLUTIONS,
        follow_ups=FOLLOW_UPS,
        notice=notice,
        note=visit.form.one("note"),
    )


async def _job(visit: Visit, job_id: str) -> Job | None:
    try:
        return await visit.api.ask("get_job", Job, path={"job_id": job_id})
    except Refused as refused:
        if refused.refusal.status != 404:
            raise
        return None


PAGES = (
    PageRoute(path="/console/conflicts", operation="list_conflicts", answer=show_list),
    PageRoute(path="/console/conflicts/{conflict_id}", operation="get_conflict", answer=show),
    PageRoute(
        method="POST",
        path="/console/conflicts/{conflict_id}/resolve",
        operation="resolve_conflict",
        answer=resolve,
    ),
)
