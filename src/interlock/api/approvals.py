"""Approvals over HTTP: the inbox, one request with everything its reviewer needs, and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import dropwhile
from typing import Any, Literal

import msgspec

from interlock.api.approval_facts import ASKERS, RequestFacts, read_facts, viewers_view
from interlock.api.calls import JOB_ID, Asked, caller_of, decide
from interlock.api.jobs import approval_view, evidence_view, job_fields, whole_view
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.api.problem import invalid
from interlock.api.problems import code_of
from interlock.api.targets import touch_views
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import JsonFault as Flaw
from interlock.kernel.refusal import Fault, Next, Refusal
from interlock.kernel.world import World
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs import queries
from interlock.rooms.jobs.approvals import ApproveJob, Decided, RejectJob, is_whole
from interlock.rooms.jobs.audience import COMMENT_BYTES_MAX, Comment, CommentKind
from interlock.rooms.jobs.discussion import AddComment, Commented, LookAtRequest, Remark
from interlock.rooms.jobs.drift import moved_target
from interlock.rooms.jobs.model import Approval, ApprovalState, Job
from interlock.rooms.jobs.queries import Foreseen, foresee, read_job, read_target
from interlock.rooms.jobs.revisions import EditJob, RefreshApproval
from interlock.rooms.jobs.withdrawal import WithdrawVote
from interlock.rooms.policy.rules import snapshot_in_force
from interlock.rooms.targets.model import Target
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import approvals as wire
from interlock.wire import jobs as wire_jobs
from interlock.wire.fields import Page

_COMMENTS_SHOWN = 50


class ApprovalsQuery(PageQuery, frozen=True, kw_only=True):
    state: Literal["pending", "approved", "rejected", "expired"] | None = None


async def listed(call: Asked[ApprovalsQuery, None]) -> Reply:
    query, now = call.query, call.services.now()
    store, tenant = call.services.store, call.caller.tenant
    state = ApprovalState(query.state) if query.state else None
    found = await queries.list_approvals(
        store, tenant, state=state, now=now, before=id_cursor(query.cursor, "job"), limit=query.limit
    )
    needed = await queries.count_votes_needed(store, found.items, now)
    items = [
        wire.ApprovalItem(**job_fields(job, now), job_id=job.id, votes_needed=needed.get(job.id))
        for job in found.items
    ]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def read(call: Asked[None, None]) -> Reply:
    job, approval = await _request(call.services, call.caller.tenant, call.path["job_id"])
    store, now = call.services.store, call.services.now()
    judgements = call.services.judgements
    world = await queries.world_of_request(store, job, now, judgements.compute)
    named = job.action.target
    target = await read_target(store, job.tenant, named.key) if named else None
    drift = drift_view(world, job, approval, target)
    foreseen = await judgements.answered(lambda: foresee(world, job, approval))
    facts = await read_facts(call, world, job, approval)
    said = await queries.read_comments(store, job)
    return Reply(200, request_view(job, approval, foreseen, drift, target, facts, said, now))


async def approve(call: Asked[None, wire.ApproveBody]) -> Answer:
    return await approve_by_id(call, call.path["job_id"])


async def approve_by_id(call: Asked[None, wire.ApproveBody], job_id: str) -> Answer:
    """Approve a job, by its id or as a step of a run."""
    body = call.body
    command = ApproveJob(
        caller=caller_of(call),
        job_id=job_id,
        reason=body.reason,
        note=body.note,
        job_hash=body.job_hash,
    )
    return await _counted(call, "approve", command)


async def reject(call: Asked[None, wire.RejectBody]) -> Answer:
    body = call.body
    command = RejectJob(
        caller=caller_of(call),
        job_id=call.path["job_id"],
        reason=body.reason,
        note=body.note,
        code=body.code,
        job_hash=body.job_hash,
    )
    return await _counted(call, "reject", command)


async def withdraw(call: Asked[None, wire.WithdrawBody]) -> Answer:
    command = WithdrawVote(caller=caller_of(call), job_id=call.path["job_id"], reason=call.body.reason)
    return await _counted(call, "withdraw", command)


async def comment(call: Asked[None, wire.CommentBody]) -> Answer:
    return await _said(call, CommentKind.COMMENT)


async def ask(call: Asked[None, wire.CommentBody]) -> Answer:
    return await _said(call, CommentKind.ASK)


async def comments(call: Asked[PageQuery, None]) -> Reply:
    job, _ = await _request(call.services, call.caller.tenant, call.path["job_id"])
    before = id_cursor(call.query.cursor, "cmt")
    newest_first = (await queries.read_comments(call.services.store, job))[::-1]
    if before is not None:
        newest_first = tuple(dropwhile(lambda each: each.comment.id != before, newest_first))[1:]
    page, rest = newest_first[: call.query.limit], newest_first[call.query.limit :]
    cursor = page[-1].comment.id if rest else None
    return Reply(200, Page(items=tuple(_remark_view(each) for each in page), next_cursor=cursor))


async def look(call: Asked[None, None]) -> Answer:
    command = LookAtRequest(caller=caller_of(call), job_id=call.path["job_id"])
    return await decide(call, command, lambda seen: Reply(200, viewers_view(seen, call.services.now())))


async def _said(call: Asked[None, wire.CommentBody], kind: CommentKind) -> Answer:
    text = call.body.text
    if (size := len(text.encode())) > COMMENT_BYTES_MAX:
        why = (
            f"has {size} bytes, more than {COMMENT_BYTES_MAX}; say it in fewer words, or in several comments"
        )
        raise invalid(Flaw("/text", why))
    command = AddComment(caller=caller_of(call), job_id=call.path["job_id"], kind=kind, text=text)

    def render(added: Commented) -> Reply:
        return Reply(201, _comment_view(added.comment, is_open=added.comment.kind is CommentKind.ASK))

    return await decide(call, command, render)


async def refresh(call: Asked[None, None]) -> Answer:
    submitter = await _submitter(call.services, call.caller.tenant, call.path["job_id"])
    command = RefreshApproval(caller=caller_of(call), job_id=call.path["job_id"], submitter=submitter)
    return await _decided(call, command)


async def edit(call: Asked[None, wire.EditBody]) -> Answer:
    submitter = await _submitter(call.services, call.caller.tenant, call.path["job_id"])
    command = EditJob(
        caller=caller_of(call),
        job_id=call.path["job_id"],
        submitter=submitter,
        payload=msgspec.Raw(canonical(call.body.payload)),
        reason=call.body.reason,
        job_hash=call.body.job_hash,
    )
    return await _decided(call, command)


async def _decided(call: Asked[None, Any], command: RefreshApproval | EditJob) -> Answer:
    def render(job: Job) -> Reply:
        return Reply(200, whole_view(job))

    return await decide(call, command, render, keep_until=lambda job: job.decidable_until)


async def _counted(
    call: Asked[None, Any], verb: str, command: ApproveJob | RejectJob | WithdrawVote
) -> Answer:
    count = call.services.measures.approvals.add

    try:
        return await decide(
            call,
            command,
            lambda decided: Reply(200, _decided_view(decided)),
            count=lambda decided: count(verb, decided.outcome.value),
            keep_until=lambda decided: decided.job.decidable_until,
        )
    except (Refusal, Fault) as no:
        count(verb, code_of(no) or "failed")
        raise


async def _submitter(service: Service, tenant: str, job_id: str) -> str:
    job = await read_job(service.store, tenant, job_id)
    if job is None:
        raise NotFound("job", job_id)
    return job.submitted_by


async def _request(service: Service, tenant: str, job_id: str) -> tuple[Job, Approval]:
    job = await read_job(service.store, tenant, job_id)
    if job is None:
        raise NotFound("approval", job_id)
    if job.approval is None:
        # Perhaps nobody ever was, or the request ended in allow or deny when it was edited or refreshed.
        advice = "no decision is asked for now; what came of it is in its history"
        raise NotFound("approval", job_id, advice, Next("job_history", {"job_id": job_id}))
    return job, job.approval


def _decided_view(decided: Decided) -> wire.Review:
    approval = decided.job.approval
    return wire.Review(
        outcome=decided.outcome.value,
        job_id=decided.job.id,
        state=decided.job.state.value,
        votes=decided.votes,
        quorum=decided.quorum,
        job_hash=decided.job.job_hash,
        decision_id=decided.decision_id,
        decided_by=approval.decided_by if approval else None,
        decided_at=approval.decided_at if approval else None,
        grace_until=approval.grace_until if approval else None,
    )


def request_view(
    job: Job,
    approval: Approval,
    foreseen: Foreseen,
    drift: wire.Drift,
    target: Target | None,
    facts: RequestFacts,
    said: Sequence[Remark],
    now: datetime,
) -> wire.ApprovalRequest:
    """A request as it stands."""
    shown = approval_view(approval, now)
    return wire.ApprovalRequest(
        job_id=job.id,
        state=shown.state,
        job=whole_view(job, now),
        approval=shown,
        submitted_for=facts.submitted_for,
        payload=job.action.payload,
        job_hash=job.job_hash,
        rule=approval.rule,
        votes=shown.votes,
        evidence=evidence_view(job),
        drift=drift,
        touches=touch_views(target),
        votes_needed=foreseen.votes_needed,
        people_able=None if facts.able is None else len(facts.able),
        on_approve=_on_approve(job, approval, foreseen),
        comments=tuple(_remark_view(each) for each in said[-_COMMENTS_SHOWN:]),
        comments_total=len(said),
        grace_until=approval.grace_until,
        viewers=facts.viewers,
        eligible=facts.eligible,
        you=facts.you,
        escalations=facts.escalations,
        next_escalation_at=facts.next_escalation.at if facts.next_escalation else None,
        next_escalation_groups=facts.next_escalation.groups if facts.next_escalation else (),
        takers=facts.takers,
        rules=facts.rules,
    )


def drift_view(world: World, job: Job, approval: Approval, target: Target | None) -> wire.Drift:
    """What moved since the request was made."""
    current = snapshot_in_force(world, job.tenant)
    return wire.Drift(
        policy_changed=current != approval.policy_snapshot,
        job_changed=not is_whole(job, approval),
        target_changed=moved_target(world, job) is not None,
        submitted_under=approval.policy_snapshot,
        current_snapshot=current,
        target_version=target.current if target else None,
    )


def _on_approve(job: Job, approval: Approval, foreseen: Foreseen) -> str:
    if foreseen.obstacle is not None:
        return f"nothing: {foreseen.obstacle}"
    if (others := foreseen.votes_needed - 1) > 0:
        return f"your vote is counted; {others} more of {approval.requirement.quorum} people must agree"
    whom = "its caller" if job.is_call else "workers"
    grace = approval.requirement.grace_seconds
    later = f", {grace} seconds later unless a person who agreed takes it back" if grace else ""
    return f"{job.action.topic} is released to {whom} with exactly this payload{later}"


def _remark_view(remark: Remark) -> wire.Comment:
    return _comment_view(remark.comment, is_open=remark.is_open)


def _comment_view(comment: Comment, *, is_open: bool) -> wire.Comment:
    return wire.Comment(
        id=comment.id,
        kind=comment.kind.value,
        by=comment.by,
        at=comment.at,
        text=comment.text,
        via=comment.via,
        open=is_open,
    )


_TAG = "Approvals"
_DECISIONS = (
    "already_approved", "already_rejected", "approval_expired", "not_actionable",
    "self_approval", "not_eligible", "people_only", "forbidden", "lock_busy",
)  # fmt: skip
# Every problem that an approve can end in, including that of a workflow's step.
APPROVAL_PROBLEMS = (
    *_DECISIONS, "snapshot_changed", "job_changed", "hash_mismatch", "target_changed", "policy_unavailable",
)  # fmt: skip
_RENEWALS = (
    "not_actionable",
    "approval_expired",
    "policy_throttled",
    "policy_unavailable",
    "lock_busy",
    "people_only",
)
_READERS = ("submit", "review", "operate", "audit", "admin")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_approvals", method="GET", path="/api/v1/approvals", tag=_TAG, roles=_READERS,
        summary="Requests for people's decision, newest first",
        query=ApprovalsQuery, answers={200: Page[wire.ApprovalItem]}, answer=listed,
    ),
    Operation(
        id="get_approval", method="GET", path="/api/v1/approvals/{job_id}", tag=_TAG, roles=_READERS,
        parameters=JOB_ID, summary="Everything the reviewer needs", answers={200: wire.ApprovalRequest}, answer=read,
    ),
    Operation(
        id="look_at_approval", method="POST", path="/api/v1/approvals/{job_id}/look", tag=_TAG, roles=_READERS,
        parameters=JOB_ID, summary="Say that you have this request open, and see who else has",
        description="People only. Ask again every 20 s or so while it is open: a person seen within 45 s is `here`. "
        "It decides nothing, is not audited, and is written at most once in 15 s for each person. The first look of a "
        "person in each round is the event `approval.opened`.",
        answers={200: wire.Viewers}, answer=look, problems=("people_only", "lock_busy"),
    ),
    Operation(
        id="approve_job", method="POST", path="/api/v1/approvals/{job_id}/approve", tag=_TAG,
        parameters=JOB_ID, summary="Say yes to exactly this request",
        body=wire.ApproveBody, answers={200: wire.Review}, answer=approve,
        problems=APPROVAL_PROBLEMS,
    ),
    Operation(
        id="reject_job", method="POST", path="/api/v1/approvals/{job_id}/reject", tag=_TAG,
        parameters=JOB_ID, summary="Say no, with a reason",
        body=wire.RejectBody, answers={200: wire.Review}, answer=reject,
        problems=(*_DECISIONS, "hash_mismatch"),
    ),
    Operation(
        id="withdraw_vote", method="POST", path="/api/v1/approvals/{job_id}/withdraw", tag=_TAG,
        parameters=JOB_ID, summary="Take your own yes back, while it waits or within the grace",
        description="If the yes had decided, the job waits for people again, with the votes that remain.",
        body=wire.WithdrawBody, answers={200: wire.Review}, answer=withdraw,
        problems=("not_actionable", "approval_expired", "not_eligible", "people_only", "forbidden", "lock_busy"),
    ),
    Operation(
        id="list_comments", method="GET", path="/api/v1/approvals/{job_id}/comments", tag=_TAG, roles=_READERS,
        parameters=JOB_ID, summary="All that was said of a request, newest first",
        query=PageQuery, answers={200: Page[wire.Comment]}, answer=comments,
    ),
    Operation(
        id="comment_on_approval", method="POST", path="/api/v1/approvals/{job_id}/comment", tag=_TAG,
        parameters=JOB_ID, summary="Say something about a request; its submitter answers so", roles=ASKERS,
        body=wire.CommentBody, answers={201: wire.Comment}, answer=comment,
        problems=("not_actionable", "people_only", "lock_busy"),
    ),
    Operation(
        id="ask_back", method="POST", path="/api/v1/approvals/{job_id}/ask", tag=_TAG,
        parameters=JOB_ID, summary="Ask the submitter something; it changes no state",
        description="It is shown as open until the submitter comments, or the request is edited.",
        body=wire.CommentBody, answers={201: wire.Comment}, answer=ask,
        problems=("not_actionable", "approval_expired", "people_only", "forbidden", "lock_busy"),
    ),
    Operation(
        id="refresh_approval", method="POST", path="/api/v1/approvals/{job_id}/refresh", tag=_TAG,
        parameters=JOB_ID, summary="Put a drifted request back on the current policy and hash", roles=ASKERS,
        answers={200: wire_jobs.Job}, answer=refresh, problems=_RENEWALS,
    ),
    Operation(
        id="edit_job", method="POST", path="/api/v1/approvals/{job_id}/edit", tag=_TAG,
        parameters=JOB_ID, summary="Change the request; votes are cleared", roles=ASKERS,
        body=wire.EditBody, answers={200: wire_jobs.Job}, answer=edit,
        problems=("hash_mismatch", *_RENEWALS),
    ),
)  # fmt: skip
