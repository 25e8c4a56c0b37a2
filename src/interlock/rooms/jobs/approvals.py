"""Decisions of people: approve and reject. An expired request is refused.

An approval is bound to what the reviewer saw. The stored request must still match its hash, and the hash that the
reviewer names must be the stored one (naming it is required once the request was edited). The policy must be the one
that asked (strict), or must still ask for the same (semantic). Only a full quorum of people who may decide *now*
releases a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import (
    PRINCIPALS,
    Caller,
    Principal,
    PrincipalKind,
    Role,
    all_folded,
    folded,
)
from interlock.rooms.identity.refusals import PeopleOnly
from interlock.rooms.identity.rules import caller_reads, check_roles, identify
from interlock.rooms.jobs.drift import check_target, drift_reads, race_reads, record_collision
from interlock.rooms.jobs.model import (
    GRANTED_LABEL,
    JOBS,
    TRANSITIONS,
    Approval,
    ApprovalState,
    Job,
    JobState,
    Vote,
)
from interlock.rooms.jobs.placement import Proposal, judged_requirement
from interlock.rooms.jobs.records import (
    DECISION_REFUSALS,
    announce_job,
    find_job,
    record_change,
    record_refusal,
    refused_job,
)
from interlock.rooms.jobs.refusals import (
    AlreadyApproved,
    AlreadyRejected,
    ApprovalExpired,
    HashMismatch,
    JobChanged,
    JobExpired,
    NotActionable,
    NotEligible,
    SelfApproval,
    SnapshotChanged,
)
from interlock.rooms.jobs.revisions import changes_since
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.rules import snapshot_in_force


def check_time(job: Job, approval: Approval, now: datetime) -> None:
    """A job that waits, for people or for a worker, must be in time, whether or not a sweep has run."""
    late = job.state_at(now) is JobState.EXPIRED and job.is_over_at(now)
    if late and job.expires_at is not None:
        raise JobExpired(job.id, job.expires_at, now)
    if approval.state_at(now) is ApprovalState.EXPIRED:
        raise ApprovalExpired(job.id, approval.ends_at, now)


def check_seen(job: Job, seen_hash: str | None) -> None:
    """The hash that the reviewer sends, if any, must be the stored one: another version is another question."""
    if seen_hash is not None and seen_hash != job.job_hash:
        raise HashMismatch(job.id, job.state.value, job.job_hash, changes_since(job, seen_hash))


def check_said(job: Job, approval: Approval, seen_hash: str | None) -> None:
    """As `check_seen`; the hash is required once the job was edited, or if the rule requires it."""
    check_seen(job, seen_hash)
    if seen_hash is not None:
        return
    if any(bytes(old.action.payload) != bytes(job.action.payload) for old in job.revisions):
        raise HashMismatch(job.id, job.state.value, job.job_hash, changes_since(job, None), is_missing=True)
    if approval.requirement.require_hash:
        raise HashMismatch(job.id, job.state.value, job.job_hash, is_missing=True)


def check_binding(world: World, job: Job, approval: Approval, seen_hash: str | None) -> None:
    """Raise unless the job is intact and the version that was seen, its target unmoved, and the policy still asks."""
    if not is_whole(job, approval):
        raise JobChanged(job.id, job.state.value, approval.job_hash, job.action.hash(job.tenant))
    check_said(job, approval, seen_hash)
    check_target(world, job)
    if not still_asks(world, job, approval):
        current = snapshot_in_force(world, job.tenant)
        raise SnapshotChanged(job.id, job.state.value, approval.policy_snapshot, current)


def is_whole(job: Job, approval: Approval) -> bool:
    """Whether the stored job has its own hash, and its approval request has the same."""
    return job.is_intact and approval.job_hash == job.job_hash


def still_asks(world: World, job: Job, approval: Approval) -> bool:
    """Whether the policy in force is the one that asked or, if that is enough, asks for the same."""
    binding = approval.requirement.binding
    if binding == "workflow":
        return True
    if snapshot_in_force(world, job.tenant) == approval.policy_snapshot:
        return True
    return binding == "semantic" and _asks_the_same(world, job, approval)


def _asks_the_same(world: World, job: Job, approval: Approval) -> bool:
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    if submitter is None:
        return False
    proposal = Proposal(tenant=job.tenant, action=job.action, actor=submitter, priority=job.priority)
    return judged_requirement(world, proposal) == (approval.rule, approval.requirement)


def eligibility_reads(job: Job) -> Reads:
    """The principals that `check_eligible` and `people_who_agree` need, in addition to the caller."""
    votes = job.approval.votes if job.approval else ()
    others = {job.submitted_by, *job.submitter_people}
    others.update(name for vote in votes for name in (vote.principal, vote.person))
    return Reads(see=tuple(PRINCIPALS.key(job.tenant, name) for name in sorted(others)))


def require_person(world: World, caller: Caller) -> Principal:
    """The reviewer behind the caller: a person with the role, whatever roles an agent was given."""
    principal = identify(world, caller)
    if principal.kind is not PrincipalKind.PERSON:
        raise PeopleOnly(principal.id, principal.kind.value)
    check_roles(principal, Role.REVIEW)
    return principal


class WhyNot(StrEnum):
    """Why a request does not wait for a person."""

    NOT_A_REVIEWER = "not_a_reviewer"
    NOT_IN_GROUPS = "not_in_groups"
    OWN_REQUEST = "own_request"
    VOTED = "voted"


def why_not(world: World, job: Job, approval: Approval, who: Principal) -> WhyNot | None:
    """What keeps a yes of theirs from counting for a request that waits; None if it waits for them.

    The world must know `eligibility_reads` of the job.
    """
    if not is_reviewer(who):
        return WhyNot.NOT_A_REVIEWER
    if (reason := _ineligible(world, job, approval, who, all_folded(who.people))) is not None:
        return reason
    return WhyNot.VOTED if _has_agreed(world, job, approval, who) else None


def is_reviewer(who: Principal) -> bool:
    """Whether they may decide requests at all: a person with the role."""
    return who.kind is PrincipalKind.PERSON and Role.REVIEW in who.roles


def check_eligible(world: World, job: Job, approval: Approval, reviewer: Principal) -> None:
    """Raise `NotEligible` or `SelfApproval` if this person may not decide this request."""
    reason = _ineligible(world, job, approval, reviewer, all_folded(reviewer.people))
    if reason is WhyNot.NOT_IN_GROUPS:
        raise NotEligible(job.id, approval.groups_at(world.now))
    if reason is WhyNot.OWN_REQUEST:
        raise SelfApproval(job.id, reviewer.id)


def people_who_agree(world: World, job: Job, approval: Approval) -> tuple[frozenset[str], ...]:
    """The distinct people who approved and may still decide, each as the set of all their names, folded."""
    return _distinct([names for _, names in _agreeing(world, job, approval)])


def votes_that_count(world: World, job: Job, approval: Approval) -> tuple[Vote, ...]:
    """One vote of each of the people who agree: those that decide, if they are enough."""
    people = people_who_agree(world, job, approval)
    first: dict[frozenset[str], Vote] = {}
    for vote, names in _agreeing(world, job, approval):
        first.setdefault(next(person for person in people if names <= person), vote)
    return tuple(first.values())


def people_able(
    world: World, job: Job, approval: Approval, principals: Iterable[Principal]
) -> tuple[frozenset[str], ...]:
    """The distinct people among these who may decide, whether they voted or not, each as all their names.

    The world must know `eligibility_reads` of the job.
    """
    named = ((each, all_folded(each.people)) for each in principals)
    return _distinct([names for each, names in named if _counts(world, job, approval, each, names)])


def _agreeing(world: World, job: Job, approval: Approval) -> Iterator[tuple[Vote, frozenset[str]]]:
    """The votes of people who may still decide, each with all the voter's names."""
    for vote in approval.votes:
        voter = world.get(PRINCIPALS, job.tenant, vote.principal)
        if voter is None:
            continue
        names = _names(world, voter, vote)
        if _counts(world, job, approval, voter, names):
            yield vote, names


def _names(world: World, voter: Principal, vote: Vote) -> frozenset[str]:
    """A voter's names, and those of the person they acted for when they voted."""
    then = None if vote.person in voter.people else world.get(PRINCIPALS, voter.tenant, vote.person)
    return all_folded((*voter.people, vote.person, *(then.people if then else ())))


def _distinct(named: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """People by their names; any that share a name are one."""
    if len(named) < 2:
        return tuple(named)
    whose: dict[str, frozenset[str]] = {}
    for names in named:
        person = names.union(*(whose[name] for name in names if name in whose))
        whose.update(dict.fromkeys(person, person))
    return tuple(dict.fromkeys(whose.values()))


def _counts(world: World, job: Job, approval: Approval, voter: Principal, names: frozenset[str]) -> bool:
    return voter.can_act and is_reviewer(voter) and _ineligible(world, job, approval, voter, names) is None


def _ineligible(
    world: World, job: Job, approval: Approval, who: Principal, names: frozenset[str]
) -> WhyNot | None:
    """Why a reviewer may not decide this request now; `names` are all that are theirs, folded."""
    groups = approval.groups_at(world.now)
    if groups and set(groups).isdisjoint(who.groups):
        return WhyNot.NOT_IN_GROUPS
    if not approval.requirement.self_approval and _is_own_request(world, job, names):
        return WhyNot.OWN_REQUEST
    return None


def _has_agreed(world: World, job: Job, approval: Approval, reviewer: Principal) -> bool:
    """Whether a yes of this person counts already."""
    theirs = all_folded(reviewer.people)
    return any(theirs & person for person in people_who_agree(world, job, approval))


def _is_own_request(world: World, job: Job, names: frozenset[str]) -> bool:
    for submitter in (job.submitted_by, *job.submitter_people):
        known = world.get(PRINCIPALS, job.tenant, submitter)
        if folded(submitter) in names or (known and not names.isdisjoint(all_folded(known.people))):
            return True
    return False


class DecisionOutcome(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    VOTE_RECORDED = "vote_recorded"
    ALREADY_APPROVED = "already_approved"
    ALREADY_REJECTED = "already_rejected"
    WITHDRAWN = "withdrawn"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one person's decision. `votes` counts the people whose yes counts, or did when it was decided.

    What is decided keeps one vote of each of them; the audit has every vote.
    """

    outcome: DecisionOutcome
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
        reviewer, job, approval = open_request(world, self.caller, self.job_id, "approve")
        if approval.state is ApprovalState.APPROVED:
            check_seen(job, self.job_hash)
            return _already(job, approval, DecisionOutcome.ALREADY_APPROVED)
        check_undecided(job, approval)
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
        if _has_agreed(world, job, approval, reviewer):
            return approval
        theirs = all_folded(reviewer.people)
        others = (each for each in approval.votes if not theirs & all_folded((each.principal, each.person)))
        vote = Vote(
            principal=reviewer.id,
            person=reviewer.person,
            at=world.now,
            reason=self.reason,
            note=self.note,
            groups=reviewer.groups,
            via=self.caller.via,
        )
        return msgspec.structs.replace(approval, votes=(*others, vote))

    def _record_vote(self, world: World, job: Job, before: Approval, voted: Approval, count: int) -> Decided:
        if voted is not before:
            job = world.put(JOBS, msgspec.structs.replace(job, approval=voted, updated_at=world.now))
            record_change(world, job, self.caller, "vote", reason=self.reason, via=self.caller.via)
            announce_job(world, job, "approval.vote_recorded", votes=count, by=self.caller.principal)
        return Decided(
            outcome=DecisionOutcome.VOTE_RECORDED,
            job=job,
            votes=count,
            quorum=voted.requirement.quorum,
            decision_id=None,
        )

    def _release(self, world: World, job: Job, voted: Approval, count: int) -> Decided:
        if count < len(voted.votes):
            voted = msgspec.structs.replace(voted, votes=votes_that_count(world, job, voted))
        approval = _settled(world, voted, "approve", self.caller, self.reason, self.note)
        grace = timedelta(seconds=approval.requirement.grace_seconds)
        grace_until = world.now + grace if grace else None
        approval = msgspec.structs.replace(approval, grace_until=grace_until)
        labels = {**job.system_labels, GRANTED_LABEL: "true"}
        stored = _move(world, job, "approve", approval, labels)
        told = {"decision_id": approval.decision_id, "grace_until": _text(grace_until)}
        record_change(world, stored, self.caller, "approve", **told, reason=self.reason, via=self.caller.via)
        announce_job(world, stored, "approval.approved", by=self.caller.principal, **told)
        return Decided(
            outcome=DecisionOutcome.APPROVED,
            job=stored,
            votes=count,
            quorum=approval.requirement.quorum,
            decision_id=approval.decision_id,
        )


class RejectJob(Command[Decided], frozen=True, kw_only=True):
    """One person's no, which decides at once, whatever the policy has become.

    With a hash, only that version is rejected; without one, any version is.
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
        _, job, approval = open_request(world, self.caller, self.job_id, "reject")
        check_seen(job, self.job_hash)
        if approval.state is ApprovalState.REJECTED:
            return _already(job, approval, DecisionOutcome.ALREADY_REJECTED)
        check_undecided(job, approval)
        settled = _settled(world, approval, "reject", self.caller, self.reason, self.note)
        votes = votes_that_count(world, job, approval)
        settled = msgspec.structs.replace(settled, code=self.code, votes=votes)
        stored = _move(world, job, "reject", settled, job.system_labels)
        record_change(
            world, stored, self.caller, "reject",
            decision_id=settled.decision_id, reason=self.reason, via=self.caller.via,
        )  # fmt: skip
        announce_job(
            world, stored, "approval.rejected", by=self.caller.principal,
            decision_id=settled.decision_id, reason=self.reason, code=self.code,
        )  # fmt: skip
        return Decided(
            outcome=DecisionOutcome.REJECTED,
            job=stored,
            votes=len(settled.votes),
            quorum=settled.requirement.quorum,
            decision_id=settled.decision_id,
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, "reject", self.job_id, refusal)
            _record_collision(world, self.caller, self.job_id, refusal)


def open_request(world: World, caller: Caller, job_id: str, verb: str) -> tuple[Principal, Job, Approval]:
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


def check_undecided(job: Job, approval: Approval) -> None:
    """Raise `AlreadyApproved` or `AlreadyRejected`, naming who did it, if the request was decided."""
    if approval.state is ApprovalState.APPROVED:
        raise AlreadyApproved(job.id, job.state.value, *_winner(approval))
    if approval.state is ApprovalState.REJECTED:
        raise AlreadyRejected(job.id, job.state.value, *_winner(approval))


def _record_collision(world: World, caller: Caller, job_id: str, refusal: Refusal) -> None:
    job = refused_job(world, caller.tenant, job_id, refusal)
    if job is not None:
        record_collision(world, caller, job, refusal)


def _settled(world: World, approval: Approval, verb: str, by: Caller, reason: str, note: str) -> Approval:
    return msgspec.structs.replace(
        approval,
        state=approval.after(verb),
        decision_id=world.new_id("dec"),
        decided_by=by.principal,
        decided_at=world.now,
        decided_via=by.via,
        reason=reason,
        note=note,
    )


def _move(world: World, job: Job, verb: str, approval: Approval, labels: dict[str, str]) -> Job:
    after = TRANSITIONS.get((job.state, verb))
    if after is None:
        raise NotActionable(job.id, job.state.value, verb)
    changed = msgspec.structs.replace(
        job,
        state=after,
        approval=approval,
        system_labels=labels,
        not_before=approval.grace_until,
        updated_at=world.now,
    )
    return world.put(JOBS, changed)


def _already(job: Job, approval: Approval, outcome: DecisionOutcome) -> Decided:
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


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
