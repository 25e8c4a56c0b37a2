"""One request for a decision as its reviewer sees it: everything needed to decide, and what a yes would do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.api.targets import TouchView, touch_views
from interlock.api.views import ApprovalView, JobView, VoteView, approval_view, whole_view
from interlock.kernel.world import World
from interlock.rooms.jobs.approval import Approval
from interlock.rooms.jobs.approval_queries import Foreseen
from interlock.rooms.jobs.approvals import is_whole
from interlock.rooms.jobs.discussion import Remark
from interlock.rooms.jobs.drift import moved_target
from interlock.rooms.jobs.model import Comment, Evidence, Job
from interlock.rooms.policy.rules import snapshot_in_force
from interlock.rooms.targets.model import Target


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What moved since the request was made; `on_approve` tells whether that is in the way of a yes.

    Under `binding: semantic` a changed policy is in the way only if it asks for something else.
    """

    policy_changed: bool
    job_changed: bool
    target_changed: bool
    submitted_under: str
    current_snapshot: str | None
    target_version: str | None


class CommentView(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said of a request. `kind` is "comment" or "ask"; an ask is `open` until it is answered."""

    id: str
    kind: str
    by: str
    at: datetime
    text: str
    via: str
    open: bool


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a reviewer needs to decide. `touches` are the last changes of what the job would change.

    `votes_needed` counts on those votes alone that still count. `people_able` counts those who may decide, whether
    they voted or not; null once it no longer waits, and where a tenant has more than 1,000 people. `on_approve` is
    what a yes would do now.
    """

    job_id: str
    state: str
    job: JobView
    approval: ApprovalView
    payload: msgspec.Raw
    job_hash: str
    rule: str | None
    votes: list[VoteView]
    evidence: list[Evidence]
    drift: Drift
    touches: list[TouchView]
    votes_needed: int
    people_able: int | None
    on_approve: str
    comments: list[CommentView]
    grace_until: datetime | None


def comment_view(comment: Comment, *, is_open: bool) -> CommentView:
    """One comment."""
    return CommentView(
        id=comment.id,
        kind=comment.kind.value,
        by=comment.by,
        at=comment.at,
        text=comment.text,
        via=comment.via,
        open=is_open,
    )


def request_view(
    job: Job,
    approval: Approval,
    foreseen: Foreseen,
    drift: Drift,
    target: Target | None,
    people_able: int | None,
    said: Sequence[Remark],
    now: datetime,
) -> RequestView:
    """A request as it stands."""
    shown = approval_view(approval, now)
    return RequestView(
        job_id=job.id,
        state=shown.state,
        job=whole_view(job, now),
        approval=shown,
        payload=job.action.payload,
        job_hash=job.job_hash,
        rule=approval.rule,
        votes=shown.votes,
        evidence=list(job.evidence),
        drift=drift,
        touches=touch_views(target),
        votes_needed=foreseen.votes_needed,
        people_able=people_able,
        on_approve=_on_approve(job, approval, foreseen),
        comments=[comment_view(each.comment, is_open=each.is_open) for each in said],
        grace_until=approval.grace_until,
    )


def drift_view(world: World, job: Job, approval: Approval, target: Target | None) -> Drift:
    """What moved since the request was made."""
    current = snapshot_in_force(world, job.tenant)
    return Drift(
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
    later = f", {grace} seconds later unless somebody who agreed takes it back" if grace else ""
    return f"{job.action.topic} is released to {whom} with exactly this payload{later}"
