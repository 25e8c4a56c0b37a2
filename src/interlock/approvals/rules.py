"""People's decisions: approve, reject, refresh, edit, and what time does to a request.

An approval is bound to what the reviewer saw: the stored request must still match its hash, the hash the
reviewer names must be the stored one, and the policy must be the one that asked (strict) or must still
ask for the same (semantic). A gate asks for permission present: only a counted quorum of people who may
decide *now* releases a job.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.approvals.model import Approval, ApprovalState, Vote
from interlock.approvals.placing import Proposal, judged_requirement
from interlock.approvals.recording import announce_job, find_job, record_change, record_refusal
from interlock.approvals.refusals import (
    AlreadyApproved,
    AlreadyRejected,
    ApprovalExpired,
    DecisionRefused,
    HashMismatch,
    JobChanged,
    NotActionable,
    NotEligible,
    SelfApproval,
    SnapshotChanged,
)
from interlock.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role
from interlock.identity.refusals import PeopleOnly
from interlock.identity.rules import caller_reads, require
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
    """What became of one person's decision. `votes` counts the people whose yes counts now."""

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
        """Everyone who voted before: a vote counts only if its voter may still decide."""
        job = find_job(world, self.caller.tenant, self.job_id)
        votes = job.approval.votes if job.approval else ()
        others = {vote.principal for vote in votes} | {job.submitted_by}
        return Reads(see=tuple(PRINCIPALS.key(self.caller.tenant, name) for name in sorted(others)))

    def decide(self, world: World) -> Decided:
        reviewer, job, approval = _open_request(world, self.caller, self.job_id, "approve")
        if approval.state is ApprovalState.APPROVED:
            return _already(job, approval, Outcome.ALREADY_APPROVED)
        if approval.state is ApprovalState.REJECTED:
            raise AlreadyRejected(job.id, *_winner(approval))
        _check_binding(world, job, approval, self.job_hash)
        voted = self._vote(world, approval, reviewer)
        count = _votes_that_count(world, job, voted)
        if count < approval.requirement.quorum:
            return self._record_vote(world, job, approval, voted, count)
        return self._release(world, job, voted, count)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DecisionRefused | PeopleOnly):
            record_refusal(world, self.caller, "approve", self.job_id, refusal)

    def _vote(self, world: World, approval: Approval, reviewer: Principal) -> Approval:
        """The request with this person's vote; voting again changes nothing."""
        if any(vote.person == reviewer.person for vote in approval.votes):
            return approval
        vote = Vote(
            principal=reviewer.id, person=reviewer.person, at=world.now, reason=self.reason, note=self.note
        )
        return msgspec.structs.replace(approval, votes=(*approval.votes, vote))

    def _record_vote(
        self, world: World, job: Job, before: Approval, voted: Approval, count: int
    ) -> Decided:
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
        approval = _settled(world, voted, ApprovalState.APPROVED, self.caller.principal, self.reason, self.note)
        labels = {**job.system_labels, GRANTED_LABEL: "true"}
        stored = _move(world, job, "approve", approval, labels)
        record_change(world, stored, self.caller, "approve", decision_id=approval.decision_id, reason=self.reason)
        announce_job(world, stored, "approval.approved", by=self.caller.principal, decision_id=approval.decision_id)
        return Decided(
            outcome=Outcome.APPROVED,
            job=stored,
            votes=count,
            quorum=approval.requirement.quorum,
            decision_id=approval.decision_id,
        )


class RejectJob(Command[Decided], frozen=True, kw_only=True):
    """One person's no, which decides at once. It holds whatever the policy or the hash have become."""

    caller: Caller
    job_id: str
    reason: str
    note: str = ""
    code: str | None = None

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def decide(self, world: World) -> Decided:
        _, job, approval = _open_request(world, self.caller, self.job_id, "reject")
        if approval.state is ApprovalState.REJECTED:
            return _already(job, approval, Outcome.ALREADY_REJECTED)
        if approval.state is ApprovalState.APPROVED:
            raise AlreadyApproved(job.id, *_winner(approval))
        settled = _settled(world, approval, ApprovalState.REJECTED, self.caller.principal, self.reason, self.note)
        settled = msgspec.structs.replace(settled, code=self.code)
        stored = _move(world, job, "reject", settled, job.system_labels)
        record_change(world, stored, self.caller, "reject", decision_id=settled.decision_id, reason=self.reason)
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
        if isinstance(refusal, DecisionRefused | PeopleOnly):
            record_refusal(world, self.caller, "reject", self.job_id, refusal)


def _open_request(world: World, caller: Caller, job_id: str, verb: str) -> tuple[Principal, Job, Approval]:
    """The reviewer, the job and its request, if this person may decide it and it is not over by the clock."""
    reviewer = require_person(world, caller)
    job = find_job(world, caller.tenant, job_id)
    approval = job.approval
    if approval is None or approval.state is ApprovalState.WITHDRAWN:
        raise NotActionable(job.id, job.state.value, verb)
    _check_eligible(job, approval, reviewer, world.now)
    if approval.state_at(world.now) is ApprovalState.EXPIRED:
        raise ApprovalExpired(job.id, approval.ends_at, world.now)
    if approval.state is ApprovalState.PENDING and job.state is not JobState.APPROVAL:
        raise NotActionable(job.id, job.state.value, verb)
    return reviewer, job, approval


def require_person(world: World, caller: Caller) -> Principal:
    """The reviewer behind the caller: a person with the role, whatever roles an agent was given."""
    principal = require(world, caller)
    if principal.kind is not PrincipalKind.PERSON:
        raise PeopleOnly(principal.id, principal.kind.value)
    return require(world, caller, Role.REVIEW)


def _check_eligible(job: Job, approval: Approval, reviewer: Principal, now: datetime) -> None:
    groups = approval.groups_at(now)
    if groups and not set(groups) & set(reviewer.groups):
        raise NotEligible(job.id, groups)
    if not approval.requirement.self_approval and is_own_request(job, reviewer):
        raise SelfApproval(job.id, reviewer.id)


def is_own_request(job: Job, reviewer: Principal) -> bool:
    """Whether the reviewer, or who owns or is owned by them, submitted or last edited the job."""
    return bool(reviewer.people & set(job.submitter_people))


def _check_binding(world: World, job: Job, approval: Approval, seen_hash: str | None) -> None:
    """What is approved must be what was stored, what was seen, and what the policy still asks about."""
    if not job.is_intact or approval.job_hash != job.job_hash:
        raise JobChanged(job.id, approval.job_hash, job.action.hash(job.tenant))
    if seen_hash is not None and seen_hash != job.job_hash:
        raise HashMismatch(job.id, job.job_hash)
    head = world.get(HEADS, job.tenant, HEAD_ID)
    current = head.snapshot if head else None
    if current == approval.policy_snapshot:
        return
    if approval.requirement.binding == "semantic" and _asks_the_same(world, job, approval):
        return
    raise SnapshotChanged(job.id, approval.policy_snapshot, current)


def _asks_the_same(world: World, job: Job, approval: Approval) -> bool:
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    if submitter is None:
        return False
    proposal = Proposal(tenant=job.tenant, action=job.action, actor=submitter, priority=job.priority)
    return judged_requirement(world, proposal) == (approval.rule, approval.requirement)


def _votes_that_count(world: World, job: Job, approval: Approval) -> int:
    """Distinct people who voted yes and may still decide at this moment."""
    people: set[str] = set()
    for vote in approval.votes:
        voter = world.get(PRINCIPALS, job.tenant, vote.principal)
        if voter is not None and _may_decide(job, approval, voter, world.now):
            people.add(voter.person)
    return len(people)


def _may_decide(job: Job, approval: Approval, voter: Principal, now: datetime) -> bool:
    groups = approval.groups_at(now)
    return (
        voter.can_act
        and voter.kind is PrincipalKind.PERSON
        and Role.REVIEW in voter.roles
        and (not groups or bool(set(groups) & set(voter.groups)))
        and (approval.requirement.self_approval or not is_own_request(job, voter))
    )


def _settled(
    world: World, approval: Approval, state: ApprovalState, by: str, reason: str, note: str
) -> Approval:
    return msgspec.structs.replace(
        approval,
        state=state,
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
