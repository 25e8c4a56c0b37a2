"""Comments on a request, questions to its submitter, and looks at it. None of them changes its state.

A question is open until its submitter comments or the request is edited, whichever comes first. A look is shown to
the other people who have the request open; it is not audited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import EventType
from interlock.rooms.identity.model import Caller, Principal, PrincipalKind, Role, all_folded
from interlock.rooms.identity.refusals import NotFound, PeopleOnly
from interlock.rooms.identity.rules import caller_reads, check_roles, identify, require
from interlock.rooms.jobs.approvals import check_time, require_person
from interlock.rooms.jobs.audience import COMMENTS_MAX, Audience, Comment, CommentKind, Discussion
from interlock.rooms.jobs.model import AUDIENCES, DISCUSSIONS, JOBS, Job, JobState
from interlock.rooms.jobs.records import (
    DECISION_REFUSALS,
    announce_job,
    find_job,
    mention_job,
    record_change,
    record_refusal,
)
from interlock.rooms.jobs.refusals import CommentsFull, NotActionable

_COMMENTERS = (Role.SUBMIT, Role.REVIEW, Role.OPERATE, Role.ADMIN)
_READERS = (Role.SUBMIT, Role.REVIEW, Role.OPERATE, Role.AUDIT, Role.ADMIN)
_EVENTS: Mapping[CommentKind, EventType] = {
    CommentKind.COMMENT: "approval.commented",
    CommentKind.ASK: "approval.asked",
}


class Remark(msgspec.Struct, frozen=True):
    """A comment, and whether it is a question without an answer."""

    comment: Comment
    is_open: bool


class Commented(msgspec.Struct, frozen=True, kw_only=True):
    """What was added, and to which job."""

    job: Job
    comment: Comment


def remarks(job: Job, discussion: Discussion | None) -> tuple[Remark, ...]:
    """All comments on a job's requests, the oldest first."""
    said = discussion.comments if discussion else ()
    payloads = (*(bytes(old.action.payload) for old in job.revisions), bytes(job.action.payload))
    changes = zip(job.revisions, pairwise(payloads), strict=True)
    edits = [old.replaced_at for old, (before, after) in changes if before != after]
    found: list[Remark] = []
    is_answered = False
    for each in reversed(said):
        is_answered = is_answered or each.answers
        is_open = each.kind is CommentKind.ASK and not is_answered and all(at <= each.at for at in edits)
        found.append(Remark(each, is_open))
    return tuple(reversed(found))


class AddComment(Command[Commented], frozen=True, kw_only=True):
    """Comment on a request, or ask its submitter a question."""

    caller: Caller
    job_id: str
    kind: CommentKind
    text: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(DISCUSSIONS.key(tenant, self.job_id),), see=(JOBS.key(tenant, self.job_id),)
        )

    def decide(self, world: World) -> Commented:
        by = identify(world, self.caller)
        job = find_job(world, self.caller.tenant, self.job_id)
        self._check_may(world, by, job)
        said = world.get(DISCUSSIONS, job.tenant, job.id) or Discussion(tenant=job.tenant, id=job.id)
        if len(said.comments) >= COMMENTS_MAX:
            raise CommentsFull(job.id, job.state.value, COMMENTS_MAX)
        comment = self._comment(world, by, job)
        world.put(DISCUSSIONS, msgspec.structs.replace(said, comments=(*said.comments, comment)))
        # The audit keeps a digest: it proves the text without storing it where nothing is ever erased.
        digest = f"sha256:{hashlib.sha256(self.text.encode()).hexdigest()}"
        told = {"comment_id": comment.id, "text_hash": digest, "via": self.caller.via}
        record_change(world, job, self.caller, self.kind.value, **told)
        announce_job(world, job, _EVENTS[self.kind], by=by.id, comment_id=comment.id, text=self.text)
        return Commented(job=job, comment=comment)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, self.kind.value, self.job_id, refusal)

    def _check_may(self, world: World, by: Principal, job: Job) -> None:
        """People with a role in approvals may comment, and so may the submitter. Only reviewers may ask."""
        if self.kind is CommentKind.ASK:
            require_person(world, self.caller)
        elif by.id != job.submitted_by and by.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(by.id, by.kind.value, "comment on the requests of others")
        check_roles(by, *_COMMENTERS)
        if job.approval is None:
            raise NotFound("approval", job.id, "no decision is asked for, so there is nothing to comment on")
        if self.kind is CommentKind.ASK:
            check_time(job, job.approval, world.now)
            if job.state is not JobState.APPROVAL:
                raise NotActionable(job.id, job.state.value, "ask about")

    def _comment(self, world: World, by: Principal, job: Job) -> Comment:
        submitters = all_folded((job.submitted_by, *job.submitter_people))
        is_theirs = not submitters.isdisjoint(all_folded(by.people))
        return Comment(
            id=world.new_id("cmt"),
            kind=self.kind,
            by=by.id,
            at=world.now,
            text=self.text,
            via=self.caller.via,
            answers=is_theirs and self.kind is CommentKind.COMMENT,
        )


class LookAtRequest(Command[Audience], frozen=True, kw_only=True):
    """Say that this person has a request open. Others hear of it once per round (`approval.opened`)."""

    caller: Caller
    job_id: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(AUDIENCES.key(tenant, self.job_id),), see=(JOBS.key(tenant, self.job_id),)
        )

    def decide(self, world: World) -> Audience:
        by = require(world, self.caller, *_READERS)
        if by.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(by.id, by.kind.value)
        job = find_job(world, self.caller.tenant, self.job_id)
        if job.approval is None:
            raise NotFound("approval", job.id, "no decision is asked for, so there is nothing to look at")
        known = world.get(AUDIENCES, job.tenant, job.id) or Audience(tenant=job.tenant, id=job.id)
        seen = known.with_look(by.id, world.now, job.approval.round)
        if seen is known:
            return known
        before = known.viewer(by.id)
        if before is None or before.round != job.approval.round:
            mention_job(world, job, "approval.opened", by=by.id, round=job.approval.round)
        return world.put(AUDIENCES, seen)
