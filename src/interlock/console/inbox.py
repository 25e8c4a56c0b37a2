"""The inbox: what waits for the person who is signed in, the most urgent first, and decisions on several at once."""

from __future__ import annotations

from interlock.console.client import Refused
from interlock.console.route import PageRoute
from interlock.console.sentence import title_of
from interlock.console.visit import Visit
from interlock.wire.approvals import Inbox, Review
from interlock.wire.http import Response

_BATCH_MAX = 200
_FILTERS = ("topic", "env", "by", "q", "order")


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
        complaint=complaint,
        answers=answers or [],
    )


PAGES = (
    PageRoute(path="/console/inbox", operation="list_inbox", answer=show),
    PageRoute(method="POST", path="/console/inbox", operation="approve_job", answer=decide),
)
