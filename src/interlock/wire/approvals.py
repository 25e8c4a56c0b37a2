"""Requests for people's decision, the inbox in which they wait, and what became of one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import Body, CommentText, Given, GivenReason, Reason, Spelled
from interlock.wire.jobs import Approval, Evidence, Job, Vote
from interlock.wire.shared import Touch


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What moved since an approval was asked for; the request's `on_approve` tells whether it is in the way.

    Under `binding: semantic` a changed policy is in the way only if it asks for something else.
    """

    policy_changed: bool = False
    job_changed: bool = False
    target_changed: bool = False
    submitted_under: Given[str] = None
    current_snapshot: str | None = None
    target_version: str | None = None


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal said of a request. An `ask` is `open` until its submitter comments or it is edited."""

    id: str
    kind: str
    by: str
    at: Given[datetime] = None
    text: str = ""
    via: str = "api"
    open: bool = False


class Viewer(msgspec.Struct, frozen=True, kw_only=True):
    """A person who opened a request, and when they were last seen; `here`: they have it open now."""

    principal: str
    first_at: Given[datetime] = None
    last_at: Given[datetime] = None
    here: bool = False


class Viewers(msgspec.Struct, frozen=True, kw_only=True):
    """The people who opened a request, the latest first: at most 50."""

    viewers: tuple[Viewer, ...] = ()


class RequestEscalation(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that may decide, too, from `at` on; `happened` if that was reached before a decision."""

    at: Given[datetime] = None
    groups: tuple[str, ...] = ()
    happened: bool = False


class RuleAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the policy that asked for people: the one that matched, or an earlier one with why it did not."""

    id: str
    matched: bool = False
    why: str = ""


class You(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do about a request now. `why_not` is the code that a decision would be refused with.

    A request that drifted may still be rejected, so drift does not take `may_decide` away; `on_approve` tells of it.
    """

    may_decide: bool = False
    why_not: str | None = None
    voted: bool = False
    may_withdraw: bool = False
    may_edit: bool = False
    may_refresh: bool = False


class ApprovalItem(Job, frozen=True, kw_only=True):
    """A job in the list of those that people were asked about; `job_id` names it in the paths of approvals.

    `votes_needed` is how many more must agree, without votes that no longer count; null once it waits for nobody.
    """

    job_id: str = ""
    votes_needed: int | None = None


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a reviewer needs to decide. `touches` are the last changes of what the job would change.

    `votes_needed` counts on those votes alone that still count. `people_able` counts those who may decide, whether
    they voted or not; null once it no longer waits, and where a tenant has more than 1,000 people. `on_approve` is
    what a yes would do now. `comments` are the newest 50 of `comments_total`, the oldest of them first.
    `eligible` are the first 20 names of those whom `people_able` counts. `viewers` opened the request, the latest
    first, `you` is what the caller may do. `submitted_for` is the person that the submitter acts for, null if it acts
    for itself. `next_escalation_at` is null if no step is left. `takers` are up to 3 who claimed jobs of the topic
    last, or the submitter if only it may. `rules` are the rule that asked and those before it (at most 50 in all),
    under the policy that asked; empty if that cannot be told any more.
    """

    job_id: str
    state: str
    job: Job
    approval: Approval
    submitted_for: str | None = None
    payload: Any = None
    job_hash: Given[str] = None
    rule: str | None = None
    votes: tuple[Vote, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    drift: Drift = Drift()
    touches: tuple[Touch, ...] = ()
    votes_needed: Given[int] = None
    people_able: int | None = None
    on_approve: Given[str] = None
    comments: tuple[Comment, ...] = ()
    comments_total: int = 0
    grace_until: datetime | None = None
    viewers: tuple[Viewer, ...] = ()
    eligible: tuple[str, ...] = ()
    you: You = You()
    escalations: tuple[RequestEscalation, ...] = ()
    next_escalation_at: datetime | None = None
    next_escalation_groups: tuple[str, ...] = ()
    takers: tuple[str, ...] = ()
    rules: tuple[RuleAsked, ...] = ()


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one approve or reject; `votes` counts the people whose yes counts, or did when it was decided.

    `outcome` is `approved`, `rejected`, `vote_recorded`, `already_approved`, `already_rejected` or, of a vote
    that was taken back, `withdrawn`. Until `grace_until` its voters may withdraw.
    """

    outcome: str
    job_id: Given[str] = None
    state: str
    votes: Given[int] = None
    quorum: Given[int] = None
    job_hash: Given[str] = None
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    grace_until: datetime | None = None


Hash = Annotated[str, msgspec.Meta(max_length=100)]


class ApproveBody(Body, frozen=True, kw_only=True):
    """`job_hash` is what the reviewer saw, and must be what is stored.

    It may be left out while the request is as it was submitted, unless the rule has `require_hash`.
    """

    reason: Reason = ""
    note: Reason = ""
    job_hash: Hash | None = None


class RejectBody(Body, frozen=True, kw_only=True):
    """`code` is a word for machines, such as `wrong_amount`. With `job_hash`, it is a no to exactly that version."""

    reason: GivenReason
    note: Reason = ""
    code: Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[A-Za-z0-9_.\-]+$(?!\n)")] | None = None
    job_hash: Hash | None = None


class EditBody(Body, frozen=True, kw_only=True):
    """With `job_hash`, exactly that version is changed; if the request was changed meanwhile, the edit is refused."""

    payload: Spelled
    reason: GivenReason
    job_hash: Hash | None = None


class WithdrawBody(Body, frozen=True, kw_only=True):
    reason: GivenReason


class CommentBody(Body, frozen=True, kw_only=True):
    text: CommentText


class InboxItem(ApprovalItem, frozen=True, kw_only=True):
    """A request that waits for people. It is `mine` if a yes of the caller's would count.

    `why_not` is `own_request`, `not_in_groups`, `voted` or `not_a_reviewer` if it is not. `ends_at` is when it expires
    for good. `blocks` counts, up to 100, the other jobs for the same target that have not run, and the run that waits
    for it. `open_questions` counts those that the submitter has not answered. `submitted_for` is the person that the
    submitter acts for, null if it acts for itself.
    """

    mine: bool = False
    why_not: str | None = None
    ends_at: datetime | None = None
    submitted_for: str | None = None
    blocks: int = 0
    open_questions: int = 0


class InboxCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much needs attention, each 1,000 at most. Those in `at_least` may be more than was counted.

    `expiring_soon` are those of `waiting_for_me` that expire within the hour. `waiting` and the counts after it are of
    the whole tenant.
    """

    waiting_for_me: int = 0
    expiring_soon: int = 0
    waiting: int = 0
    conflicts_open: int = 0
    effects_ambiguous: int = 0
    dead_letters: int = 0
    at_least: tuple[str, ...] = ()


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """One page of what waits for people, and the counts.

    A page may have fewer items than were asked for, or none, and a `next_cursor` all the same; it is null on the last.
    """

    items: tuple[InboxItem, ...]
    next_cursor: str | None = None
    counts: InboxCounts = InboxCounts()
