"""Taking a yes back: while the request waits, or within the grace after it was decided.

The grace ends the moment from which the job may be claimed, by one clock, so a withdrawal and a claim never both win.
"""

from __future__ import annotations

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller, Principal, all_folded
from interlock.rooms.identity.rules import caller_reads
from interlock.rooms.jobs.approvals import (
    Decided,
    DecisionOutcome,
    check_time,
    eligibility_reads,
    people_who_agree,
    require_person,
)
from interlock.rooms.jobs.model import GRANTED_LABEL, JOBS, TRANSITIONS, Approval, Job, JobState, Vote
from interlock.rooms.jobs.records import (
    DECISION_REFUSALS,
    announce_job,
    find_job,
    record_change,
    record_refusal,
)
from interlock.rooms.jobs.refusals import NotActionable, NotAVoter, NotWithdrawable, NoVote


class WithdrawVote(Command[Decided], frozen=True, kw_only=True):
    """Take one's own approval back. If it had decided, the job waits for people again, with the remaining votes."""

    caller: Caller
    job_id: str
    reason: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def more(self, world: World) -> Reads:
        return eligibility_reads(find_job(world, self.caller.tenant, self.job_id))

    def decide(self, world: World) -> Decided:
        voter = require_person(world, self.caller)
        job = find_job(world, self.caller.tenant, self.job_id)
        approval = withdrawable(world, job)
        remaining = votes_without(job, approval, voter)
        stored = world.put(JOBS, _asked_again(world, job, approval, remaining))
        count = len(people_who_agree(world, stored, stored.approval)) if stored.approval else 0
        told = {"reason": self.reason, "decision_id": approval.decision_id}
        record_change(world, stored, self.caller, "withdraw", **told, via=self.caller.via)
        announce_job(world, stored, "approval.withdrawn", by=self.caller.principal, votes=count, **told)
        quorum = approval.requirement.quorum
        return Decided(
            outcome=DecisionOutcome.WITHDRAWN, job=stored, votes=count, quorum=quorum, decision_id=None
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, "withdraw", self.job_id, refusal)


def withdrawable(world: World, job: Job) -> Approval:
    """The request, if a vote for it can be taken back now."""
    approval = job.approval
    if approval is None or job.state not in (JobState.APPROVAL, JobState.PENDING):
        raise NotActionable(job.id, job.state.value, "withdraw")
    if job.state is JobState.APPROVAL:
        check_time(job, approval, world.now)
        return approval
    if job.is_in_grace_at(world.now):
        return approval
    if approval.grace_until is None:
        raise NotWithdrawable(job.id, job.state.value, "the rule that asked gives no grace")
    over = f"the time to withdraw ended at {approval.grace_until:%Y-%m-%dT%H:%M:%SZ}"
    raise NotWithdrawable(job.id, job.state.value, over)


def has_voted(approval: Approval, voter: Principal) -> bool:
    """Whether a vote for the request is this person's."""
    return len(_of_others(approval, voter)) < len(approval.votes)


def votes_without(job: Job, approval: Approval, voter: Principal) -> tuple[Vote, ...]:
    """The votes of the others; raise if this person has no vote."""
    others = _of_others(approval, voter)
    if has_voted(approval, voter):
        return others
    if job.state is JobState.PENDING:
        raise NotAVoter(job.id, tuple(vote.principal for vote in others))
    raise NoVote(job.id)


def _of_others(approval: Approval, voter: Principal) -> tuple[Vote, ...]:
    theirs = all_folded(voter.people)
    return tuple(
        vote for vote in approval.votes if theirs.isdisjoint(all_folded((vote.principal, vote.person)))
    )


def _asked_again(world: World, job: Job, approval: Approval, votes: tuple[Vote, ...]) -> Job:
    """The job as it waits for people, as if this vote had never been; the audit has the decision that was undone."""
    pending = msgspec.structs.replace(
        approval,
        state=approval.after("take_back"),
        votes=votes,
        decision_id=None,
        decided_by=None,
        decided_at=None,
        decided_via=None,
        grace_until=None,
        reason="",
        note="",
    )
    is_decided = job.state is JobState.PENDING
    labels = {name: value for name, value in job.system_labels.items() if name != GRANTED_LABEL}
    return msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "take_back"] if is_decided else job.state,
        approval=pending,
        system_labels=labels,
        not_before=None,
        offered=0,
        offered_at=None,
        updated_at=world.now,
    )
