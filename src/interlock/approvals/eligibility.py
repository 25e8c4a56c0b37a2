"""Who may decide a request, and whose yes counts at this moment.

Whoever submitted or edited a job, owns who did, or is owned by them counts as one person with it: as they
were when it happened, and as they are now. A vote counts for as long as its voter may still decide.
"""

from __future__ import annotations

from interlock.approvals.model import Approval
from interlock.approvals.refusals import NotEligible, SelfApproval
from interlock.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role
from interlock.identity.refusals import PeopleOnly
from interlock.identity.rules import check_roles, identify
from interlock.jobs.model import Job
from interlock.kernel.record import Reads
from interlock.kernel.world import World

_NOBODY: frozenset[str] = frozenset()


def eligibility_reads(job: Job) -> Reads:
    """The principals whom `check_eligible` and `people_who_agree` look at, besides the caller."""
    votes = job.approval.votes if job.approval else ()
    others = {vote.principal for vote in votes} | {job.submitted_by}
    return Reads(see=tuple(PRINCIPALS.key(job.tenant, name) for name in sorted(others)))


def require_person(world: World, caller: Caller) -> Principal:
    """The reviewer behind the caller: a person with the role, whatever roles an agent was given."""
    principal = identify(world, caller)
    if principal.kind is not PrincipalKind.PERSON:
        raise PeopleOnly(principal.id, principal.kind.value)
    check_roles(principal, Role.REVIEW)
    return principal


def check_eligible(world: World, job: Job, approval: Approval, reviewer: Principal) -> None:
    """Raise `NotEligible` or `SelfApproval` if this person may not decide this request."""
    groups = approval.groups_at(world.now)
    if groups and not set(groups) & set(reviewer.groups):
        raise NotEligible(job.id, groups)
    if not approval.requirement.self_approval and _is_own_request(world, job, reviewer):
        raise SelfApproval(job.id, reviewer.id)


def people_who_agree(world: World, job: Job, approval: Approval) -> frozenset[str]:
    """The distinct people who voted yes and may still decide."""
    if not approval.votes:
        return _NOBODY
    voters = (world.get(PRINCIPALS, job.tenant, vote.principal) for vote in approval.votes)
    return frozenset(voter.person for voter in voters if voter and _counts(world, job, approval, voter))


def _counts(world: World, job: Job, approval: Approval, voter: Principal) -> bool:
    groups = approval.groups_at(world.now)
    return (
        voter.can_act
        and voter.kind is PrincipalKind.PERSON
        and Role.REVIEW in voter.roles
        and (not groups or bool(set(groups) & set(voter.groups)))
        and (approval.requirement.self_approval or not _is_own_request(world, job, voter))
    )


def _is_own_request(world: World, job: Job, reviewer: Principal) -> bool:
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    names = reviewer.people
    return not names.isdisjoint(job.submitter_people) or (
        submitter is not None and not names.isdisjoint(submitter.people)
    )
