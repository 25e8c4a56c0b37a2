"""One request: everything a reviewer needs, and the decision, which carries the hash of what was shown."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.console.client import Refusal, Refused
from interlock.console.sentence import on_approve, title_of
from interlock.console.shown import changed_lines, editable, evidence_body, pretty
from interlock.console.timeline import timeline_of
from interlock.console.visit import HTML, Notice, PageRoute, Visit, complaint, notice_of
from interlock.wire.approvals import ApprovalRequest, Comment, Inbox, Review, Viewers
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.jobs import Job
from interlock.wire.policy import Evaluation
from interlock.wire.shared import TargetState

# How far into the inbox a request looks for the one before and the one after it.
_NEIGHBOURS = 50
_EVIDENCE_POLICY = (
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'self'; frame-ancestors 'self'"
)
# What a person did, as the page says it after the browser was sent back to it.
_OUTCOMES = {
    "approved": "You approved it.",
    "vote_recorded": "Your yes is counted.",
    "already_approved": "It was approved already; nothing changed.",
    "rejected": "You rejected it.",
    "already_rejected": "It was rejected already; nothing changed.",
    "withdrawn": "You withdrew your yes.",
    "commented": "Your comment was added.",
    "asked": "Your question was sent to the submitter.",
    "refreshed": "The request is under the current policy now; earlier votes are cleared.",
    "edited": "The request was changed; earlier votes are cleared.",
}


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def approve(visit: Visit) -> Response:
    body = {"reason": visit.form.one("reason"), "job_hash": visit.form.one("job_hash")}
    return await _done(visit, "approve_job", Review, body)


async def reject(visit: Visit) -> Response:
    reason = visit.form.one("reason")
    if not reason:
        return await _page(visit, notice=complaint("Rejecting needs a reason."))
    body = {"reason": reason, "job_hash": visit.form.one("job_hash")}
    return await _done(visit, "reject_job", Review, body)


async def withdraw(visit: Visit) -> Response:
    return await _done(
        visit, "withdraw_vote", Review, {"reason": visit.form.one("reason") or "undone in the console"}
    )


async def comment(visit: Visit) -> Response:
    return await _done(
        visit, "comment_on_approval", Comment, {"text": visit.form.text("text")}, outcome="commented"
    )


async def ask(visit: Visit) -> Response:
    return await _done(visit, "ask_back", Comment, {"text": visit.form.text("text")}, outcome="asked")


async def refresh(visit: Visit) -> Response:
    return await _done(visit, "refresh_approval", Job, None, outcome="refreshed")


async def edit_form(visit: Visit) -> Response:
    return await _edit_page(visit)


async def edit(visit: Visit) -> Response:
    """Change the payload, or, asked to, say what the policy would do with it."""
    text = visit.form.text("payload")
    try:
        payload = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return await _edit_page(visit, text=text, notice=complaint(f"The payload is not JSON: {error}."))
    try:
        if visit.form.one("do") == "preview":
            foreseen = await _foreseen(visit, payload)
            return await _edit_page(visit, text=text, foreseen=foreseen)
        # The text as it was written: what it says is read strictly there, duplicate keys included.
        body = (
            b'{"payload":'
            + text.encode()
            + b',"reason":'
            + msgspec.json.encode(visit.form.one("reason"))
            + b',"job_hash":'
            + msgspec.json.encode(visit.form.one("job_hash"))
            + b"}"
        )
        response = await visit.api.ask("edit_job", Job, path=visit.path, body=body)
    except Refused as refused:
        return await _edit_page(visit, text=text, notice=notice_of(refused.refusal))
    return visit.redirect(
        _here(visit) if response.approval else f"/console/jobs/{response.id}", outcome="edited"
    )


async def evidence(visit: Visit) -> Response:
    """One piece of evidence alone, in a sandbox: it can run nothing, and reach nothing."""
    request = await _request(visit)
    at = visit.path["index"]
    if at not in map(str, range(len(request.evidence))):
        detail = "This request has no such evidence."
        raise Refused(Refusal(code="not_found", status=404, title="No such evidence", detail=detail))
    response = visit.render("evidence.html", body=evidence_body(request.evidence[int(at)]))
    headers = (("content-security-policy", _EVIDENCE_POLICY), ("x-frame-options", "SAMEORIGIN"))
    return msgspec.structs.replace(response, headers=(*HTML, *headers))


async def look(visit: Visit) -> Response:
    """A page that is open says so, and learns who else has it open."""
    viewers = await visit.api.ask("look_at_approval", Viewers, path=visit.path, body={})
    return visit.render("viewers.html", request=viewers)


async def _done(
    visit: Visit, operation_id: str, shape: type[Review | Comment | Job], body: Any, *, outcome: str = ""
) -> Response:
    try:
        answer = await visit.api.ask(operation_id, shape, path=visit.path, body=body)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    if isinstance(answer, Job) and answer.approval is None:
        return visit.redirect(f"/console/jobs/{answer.id}", outcome=outcome)
    return visit.redirect(_here(visit), outcome=answer.outcome if isinstance(answer, Review) else outcome)


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    request = await _request(visit)
    notice = notice or _outcome(visit, request)
    history = await visit.api.ask("job_history", Page[AuditEntry], path=visit.path, query={"limit": 200})
    target = await _target(visit, request.job)
    before, after, place = await _neighbours(visit, request.job_id)
    return await visit.page(
        "approval.html",
        request=request,
        job=request.job,
        approval=request.approval,
        title=title_of(request.job),
        sentences=on_approve(request),
        timeline=timeline_of(request, history.items),
        target=target,
        versions=_versions(request.job),
        notice=notice,
        before=before,
        after=after,
        place=place,
    )


def _outcome(visit: Visit, request: ApprovalRequest) -> Notice | None:
    """What the person did just now, if the request bears it out: an address can claim anything."""
    me, outcome = visit.known.principal if visit.known else "", visit.query.one("outcome")
    has_voted = any(vote.principal == me for vote in request.votes)
    is_decider = request.approval.decided_by == me
    is_so = {
        "approved": request.state == "approved" and is_decider,
        "already_approved": request.state == "approved",
        "vote_recorded": has_voted,
        "rejected": request.state == "rejected" and is_decider,
        "already_rejected": request.state == "rejected",
        "withdrawn": not has_voted,
    }
    return visit.outcome(_OUTCOMES) if is_so.get(outcome, True) else None


async def _request(visit: Visit) -> ApprovalRequest:
    return await visit.api.ask("get_approval", ApprovalRequest, path=visit.path)


async def _target(visit: Visit, job: Job) -> TargetState | None:
    if job.target is None:
        return None
    try:
        return await visit.api.ask("get_target", TargetState, path={"key": job.target.key})
    except Refused as refused:
        if refused.refusal.status not in (403, 404):
            raise
        return TargetState(key=job.target.key)  # Nobody has touched it, and nothing else waits for it.


async def _neighbours(visit: Visit, job_id: str) -> tuple[str | None, str | None, str]:
    """The requests before and after this one in the inbox."""
    if not visit.may("list_inbox"):
        return None, None, ""
    found = await visit.api.ask("list_inbox", Inbox, query={"limit": _NEIGHBOURS})
    ids = [item.job_id for item in found.items]
    more = "+" if found.next_cursor else ""
    if job_id not in ids:
        return None, ids[0] if ids else None, f"{len(ids)}{more} wait for you" if ids else ""
    at = ids.index(job_id)
    before = ids[at - 1] if at else None
    after = ids[at + 1] if at + 1 < len(ids) else None
    return before, after, f"{at + 1} of {len(ids)}{more} that wait for you"


async def _edit_page(
    visit: Visit,
    *,
    text: str | None = None,
    notice: Notice | None = None,
    foreseen: Evaluation | None = None,
) -> Response:
    request = await _request(visit)
    now = editable(request.payload)
    # A text belongs to the version that it was written for, until what that has become meanwhile was shown.
    is_compared = notice is not None and notice.refusal is not None and notice.refusal.code == "hash_mismatch"
    return await visit.page(
        "edit.html",
        request=request,
        job_hash=request.job_hash if text is None or is_compared else visit.form.one("job_hash"),
        job=request.job,
        title=title_of(request.job),
        text=now if text is None else text,
        reason=visit.form.one("reason"),
        notice=notice,
        foreseen=foreseen,
        changes=changed_lines(now, text) if text is not None else [],
    )


async def _foreseen(visit: Visit, payload: Any) -> Evaluation:
    job = (await _request(visit)).job
    labels = {name: value for name, value in job.labels.items() if name not in job.system_labels}
    action: dict[str, Any] = {"topic": job.topic, "payload": payload, "labels": labels, "risk": job.risk}
    action |= {name: value for name, value in (("env", job.env), ("channel", job.channel)) if value}
    action["priority"] = job.priority
    return await visit.api.ask("evaluate_policy", Evaluation, body=action)


def _versions(job: Job) -> list[dict[str, Any]]:
    """Each version a request had before, with what the next one changed in it; the newest first."""
    if isinstance(job.revisions, msgspec.UnsetType) or not job.revisions:
        return []
    payloads = [*(each.payload for each in job.revisions), job.payload]
    return [
        {"revision": each, "changes": changed_lines(pretty(payloads[at]), pretty(payloads[at + 1]))}
        for at, each in enumerate(job.revisions)
    ][::-1]


def _here(visit: Visit) -> str:
    return f"/console/approvals/{visit.path['job_id']}"


_ONE = "/console/approvals/{job_id}"
PAGES = (
    PageRoute(path=_ONE, operation="get_approval", answer=show),
    PageRoute(method="POST", path=_ONE + "/approve", operation="approve_job", answer=approve),
    PageRoute(method="POST", path=_ONE + "/reject", operation="reject_job", answer=reject),
    PageRoute(method="POST", path=_ONE + "/withdraw", operation="withdraw_vote", answer=withdraw),
    PageRoute(method="POST", path=_ONE + "/comment", operation="comment_on_approval", answer=comment),
    PageRoute(method="POST", path=_ONE + "/ask", operation="ask_back", answer=ask),
    PageRoute(method="POST", path=_ONE + "/refresh", operation="refresh_approval", answer=refresh),
    PageRoute(path=_ONE + "/edit", operation="edit_job", answer=edit_form),
    PageRoute(method="POST", path=_ONE + "/edit", operation="edit_job", answer=edit),
    PageRoute(path=_ONE + "/evidence/{index}", operation="get_approval", answer=evidence),
    PageRoute(method="POST", path=_ONE + "/look", operation="look_at_approval", answer=look),
)
