"""Who may decide a request, and whose yes counts at this moment.

Whoever submitted or edited a job, owns who did through however many others, or is owned by them counts as one
person with it: as they were when it happened, and as they are now. Names are compared as `folded`, so that two
spellings of one name from before names were kept are one person too. A vote counts for as long as its voter may
still decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from interlock.approvals.model import Approval, Vote
from interlock.approvals.refusals import NotEligible, SelfApproval
from interlock.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role
from interlock.identity.names import all_folded, folded
from interlock.identity.refusals import PeopleOnly
from interlock.identity.rules import check_roles, identify
from interlock.jobs.model import Job
from interlock.kernel.record import Reads
from interlock.kernel.world import World


def eligibility_reads(job: Job) -> Reads:
    """The principals whom `check_eligible` and `people_who_agree` look at, besides the caller."""
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


def check_eligible(world: World, job: Job, approval: Approval, reviewer: Principal) -> None:
    """Raise `NotEligible` or `SelfApproval` if this person may not decide this request."""
    groups = approval.groups_at(world.now)
    if groups and not set(groups) & set(reviewer.groups):
        raise NotEligible(job.id, groups)
    names = all_folded(reviewer.people)
    if not approval.requirement.self_approval and _is_own_request(world, job, names):
        raise SelfApproval(job.id, reviewer.id)


def people_who_agree(world: World, job: Job, approval: Approval) -> tuple[frozenset[str], ...]:
    """The distinct people who voted yes and may still decide, each as all the names that are theirs, folded."""
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
    """The votes of those who may still decide, each with all the voter's names."""
    for vote in approval.votes:
        voter = world.get(PRINCIPALS, job.tenant, vote.principal)
        if voter is None:
            continue
        names = _names(world, voter, vote)
        if _counts(world, job, approval, voter, names):
            yield vote, names


def _names(world: World, voter: Principal, vote: Vote) -> frozenset[str]:
    """A voter's names, with those of whom they acted for when they voted."""
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
    groups = approval.groups_at(world.now)
    return (
        voter.can_act
        and voter.kind is PrincipalKind.PERSON
        and Role.REVIEW in voter.roles
        and (not groups or bool(set(groups) & set(voter.groups)))
        and (approval.requirement.self_approval or not _is_own_request(world, job, names))
    )


def _is_own_request(world: World, job: Job, names: frozenset[str]) -> bool:
    for submitter in (job.submitted_by, *job.submitter_people):
        known = world.get(PRINCIPALS, job.tenant, submitter)
        if folded(submitter) in names or (known and not names.isdisjoint(all_folded(known.people))):
            return True
    return False
