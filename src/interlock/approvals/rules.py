"""People's decisions: approve, reject, refresh, edit, and what time does to a request.

An approval is bound to what the reviewer saw: the stored request must still match its hash, the hash the
reviewer names must be the stored one (and must be named once the request was edited), and the policy must be
the one that asked (strict) or must still ask for the same (semantic). A gate asks for permission present: only
a counted quorum of people who may decide *now* releases a job.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.approvals.binding import check_binding, check_seen, check_time
from interlock.approvals.drifting import drift_reads, race_reads, record_collision
from interlock.approvals.eligibility import (
    check_eligible,
    eligibility_reads,
    people_who_agree,
    require_person,
    votes_that_count,
)
from interlock.approvals.model import Approval, ApprovalState, Vote
from interlock.approvals.recording import (
    DECISION_REFUSALS,
    announce_job,
    find_job,
    record_change,
    record_refusal,
    refused_job,
)
from interlock.approvals.refusals import AlreadyApproved, AlreadyRejected, NotActionable
from interlock.identity.model import Caller, Principal
from interlock.identity.names import all_folded
from interlock.identity.rules import caller_reads
from interlock.jobs.model import GRANTED_LABEL, JOBS, TRANSITIONS, Job, JobState
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.policy.model import HEAD_ID, HEADS


class Outcome(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    VOTE_RECORDED = "vote_recorded"
    ALREADY_APPROVED = "already_approved"
    ALREADY_REJECTED = "already_rejected"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one person's decision. `votes` counts the people whose yes counts, or did when it was decided.

    What is decided keeps one vote of each of them; the audit has every vote.
    """

    outcome: Outcome
    job: Job
    votes: int
    quorum: int
    decision_id: str | None


class ApproveJob(Command[Decided], frozen=True, kw_only=True):
    """One person's yes to exactly this request."""

    caller: Caller
    job_id: str
    reason: str = ""
    note: str = ""
    job_hash: str | None = None

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(JOBS.key(tenant, self.job_id),), see=(HEADS.key(tenant, HEAD_ID),)
        )

    def more(self, world: World) -> Reads:
        job = find_job(world, self.caller.tenant, self.job_id)
        return eligibility_reads(job) | drift_reads(job) | race_reads(job)

    def decide(self, world: World) -> Decided:
        reviewer, job, approval = _open_request(world, self.caller, self.job_id, "approve")
        if approval.state is ApprovalState.APPROVED:
            check_seen(job, self.job_hash)
            return _already(job, approval, Outcome.ALREADY_APPROVED)
        if approval.state is ApprovalState.REJECTED:
            raise AlreadyRejected(job.id, job.state.value, *_winner(approval))
        check_binding(world, job, approval, self.job_hash)
        voted = self._vote(world, job, approval, reviewer)
        count = len(people_who_agree(world, job, voted))
        if count < approval.requirement.quorum:
            return self._record_vote(world, job, approval, voted, count)
        return self._release(world, job, voted, count)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, "approve", self.job_id, refusal)
            _record_collision(world, self.caller, self.job_id, refusal)

    def _vote(self, world: World, job: Job, approval: Approval, reviewer: Principal) -> Approval:
        """The request with this person's vote; voting again changes nothing while the first vote counts."""
        theirs = all_folded(reviewer.people)
        if any(theirs & person for person in people_who_agree(world, job, approval)):
            return approval
        others = (each for each in approval.votes if not theirs & all_folded((each.principal, each.person)))
        vote = Vote(
            principal=reviewer.id,
            person=reviewer.person,
            at=world.now,
            reason=self.reason,
            note=self.note,
            groups=reviewer.groups,
        )
        return msgspec.structs.replace(approval, votes=(*others, vote))

    def _record_vote(self, world: World, job: Job, before: Approval, voted: Approval, count: int) -> Decided:
        if voted is not before:
            job = world.put(JOBS, msgspec.structs.replace(job, approval=voted, updated_at=world.now))
            record_change(world, job, self.caller, "vote", reason=self.reason)
            announce_job(world, job, "approval.vote_recorded", votes=count, by=self.caller.principal)
        return Decided(
            outcome=Outcome.VOTE_RECORDED,
            job=job,
            votes=count,
            quorum=voted.requirement.quorum,
            decision_id=None,
        )

    def _release(self, world: World, job: Job, voted: Approval, count: int) -> Decided:
        if count < len(voted.votes):
            voted = msgspec.structs.replace(voted, votes=votes_that_count(world, job, voted))
        approval = _settled(world, voted, "approve", self.caller.principal, self.reason, self.note)
        labels = {**job.system_labels, GRANTED_LABEL: "true"}
        stored = _move(world, job, "approve", approval, labels)
        record_change(
            world, stored, self.caller, "approve", decision_id=approval.decision_id, reason=self.reason
        )
        announce_job(
            world, stored, "approval.approved", by=self.caller.principal, decision_id=approval.decision_id
        )
        return Decided(
            outcome=Outcome.APPROVED,
            job=stored,
            votes=count,
            quorum=approval.requirement.quorum,
            decision_id=approval.decision_id,
        )


class RejectJob(Command[Decided], frozen=True, kw_only=True):
    """One person's no, which decides at once, whatever the policy has become.

    Who says which version they saw says no to that one alone; without a hash, it is a no to any.
    """

    caller: Caller
    job_id: str
    reason: str
    note: str = ""
    code: str | None = None
    job_hash: str | None = None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def more(self, world: World) -> Reads:
        job = find_job(world, self.caller.tenant, self.job_id)
        return eligibility_reads(job) | race_reads(job)

    def decide(self, world: World) -> Decided:
        _, job, approval = _open_request(world, self.caller, self.job_id, "reject")
        check_seen(job, self.job_hash)
        if approval.state is ApprovalState.REJECTED:
            return _already(job, approval, Outcome.ALREADY_REJECTED)
        if approval.state is ApprovalState.APPROVED:
            raise AlreadyApproved(job.id, job.state.value, *_winner(approval))
        settled = _settled(world, approval, "reject", self.caller.principal, self.reason, self.note)
        votes = votes_that_count(world, job, approval)
        settled = msgspec.structs.replace(settled, code=self.code, votes=votes)
        stored = _move(world, job, "reject", settled, job.system_labels)
        record_change(
            world, stored, self.caller, "reject", decision_id=settled.decision_id, reason=self.reason
        )
        announce_job(
            world, stored, "approval.rejected", by=self.caller.principal,
            decision_id=settled.decision_id, reason=self.reason, code=self.code,
        )  # fmt: skip
        return Decided(
            outcome=Outcome.REJECTED,
            job=stored,
            votes=len(settled.votes),
            quorum=settled.requirement.quorum,
            decision_id=settled.decision_id,
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, "reject", self.job_id, refusal)
            _record_collision(world, self.caller, self.job_id, refusal)


def _open_request(world: World, caller: Caller, job_id: str, verb: str) -> tuple[Principal, Job, Approval]:
    """The reviewer, the job and its request, if this person may decide it and it is not over by the clock."""
    reviewer = require_person(world, caller)
    job = find_job(world, caller.tenant, job_id)
    approval = job.approval
    if approval is None or job.state is JobState.CANCELLED:
        raise NotActionable(job.id, job.state.value, verb)
    check_eligible(world, job, approval, reviewer)
    check_time(job, approval, world.now)
    if approval.state is ApprovalState.PENDING and job.state is not JobState.APPROVAL:
        raise NotActionable(job.id, job.state.value, verb)
    return reviewer, job, approval


def _record_collision(world: World, caller: Caller, job_id: str, refusal: Refusal) -> None:
    job = refused_job(world, caller.tenant, job_id, refusal)
    if job is not None:
        record_collision(world, caller, job, refusal)


def _settled(world: World, approval: Approval, verb: str, by: str, reason: str, note: str) -> Approval:
    return msgspec.structs.replace(
        approval,
        state=approval.after(verb),
        decision_id=world.new_id("dec"),
        decided_by=by,
        decided_at=world.now,
        reason=reason,
        note=note,
    )


def _move(world: World, job: Job, verb: str, approval: Approval, labels: dict[str, str]) -> Job:
    after = TRANSITIONS.get((job.state, verb))
    if after is None:
        raise NotActionable(job.id, job.state.value, verb)
    changed = msgspec.structs.replace(
        job, state=after, approval=approval, system_labels=labels, updated_at=world.now
    )
    return world.put(JOBS, changed)


def _already(job: Job, approval: Approval, outcome: Outcome) -> Decided:
    return Decided(
        outcome=outcome,
        job=job,
        votes=len(approval.votes),
        quorum=approval.requirement.quorum,
        decision_id=approval.decision_id,
    )


def _winner(approval: Approval) -> tuple[str, datetime, str]:
    decided_at = approval.decided_at or approval.requested_at
    return approval.decided_by or "", decided_at, approval.decision_id or ""
