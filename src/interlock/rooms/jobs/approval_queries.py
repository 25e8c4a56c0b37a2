"""Reading approval requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import new_id
from interlock.kernel.pages import Records, page_of, readable
from interlock.kernel.record import Reads, merge_reads, micros
from interlock.kernel.storage import Store
from interlock.kernel.world import World
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal, folded
from interlock.rooms.identity.queries import list_people
from interlock.rooms.jobs.abilities import Abilities, abilities, abilities_reads
from interlock.rooms.jobs.approvals import (
    eligibility_reads,
    is_whole,
    people_able,
    people_who_agree,
    still_asks,
)
from interlock.rooms.jobs.discussion import Remark, remarks
from interlock.rooms.jobs.drift import moved_target, target_reads
from interlock.rooms.jobs.model import (
    AUDIENCES,
    DISCUSSIONS,
    JOBS,
    Approval,
    ApprovalState,
    Job,
    JobState,
    Step,
)
from interlock.rooms.jobs.viewers import Audience
from interlock.rooms.policy.evaluation import Evaluation, with_people
from interlock.rooms.policy.judgement import Judging
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.queries import read_snapshot
from interlock.rooms.policy.refusals import PolicyUnavailable


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """How many more people must agree, not counting votes that no longer count; `obstacle` is what stops them all."""

    votes_needed: int
    obstacle: str | None


def foresight_reads(job: Job) -> Reads:
    """What `foresee` looks at besides the job."""
    return Reads(see=(HEADS.key(job.tenant, HEAD_ID),)) | eligibility_reads(job) | target_reads(job)


def foresee(world: World, job: Job, approval: Approval) -> Foreseen:
    """What a yes by somebody who may decide would meet now."""
    return Foreseen(votes_needed=votes_needed(world, job, approval), obstacle=_obstacle(world, job, approval))


def votes_needed(world: World, job: Job, approval: Approval) -> int:
    """How many more people must agree, not counting votes that no longer count."""
    return max(0, approval.requirement.quorum - len(people_who_agree(world, job, approval)))


def _obstacle(world: World, job: Job, approval: Approval) -> str | None:
    state = job.state_at(world.now)
    if state is not JobState.APPROVAL:
        return f"the job is {state.value}"
    if not is_whole(job, approval):
        return "what is stored no longer matches its hash; find out who changed it"
    if moved := moved_target(world, job):
        return f"{moved.id} moved to {moved.current} since it was asked; refresh it first"
    try:
        asks = still_asks(world, job, approval)
    except PolicyUnavailable as failed:
        return failed.detail
    return None if asks else "the policy changed since it was asked; refresh it first"


PEOPLE_MAX = 1000
RULES_SHOWN_MAX = 50
TAKERS_MAX = 3
_TAKEN_MAX = 10
_TAKEN_AMONG = 200


async def list_approvals(
    store: Store, tenant: str, *, state: ApprovalState | None, now: datetime, before: str | None, limit: int
) -> Records[Job]:
    """Jobs that people were asked about, newest first, narrowed by the request's state as of `now`."""
    name, params = "list_approvals", {"tenant": tenant}
    if state is ApprovalState.EXPIRED:
        name, params = "list_expired_approvals", {"tenant": tenant, "now": micros(now)}
    elif state is ApprovalState.PENDING:
        name = "list_pending_approvals"
    elif state is not None:
        name, params = "list_decided_approvals", {"tenant": tenant, "state": state.value}
    return await page_of(
        store,
        JOBS,
        f"jobs.{name}",
        params,
        before,
        limit,
        keep=lambda job: state in (None, _state_at(job, now)),
    )


async def world_of_request(store: Store, job: Job, now: datetime, compute: Compute = compute_here) -> World:
    """What `foresee` needs to know of a request, as last committed; nothing can be decided in it."""
    world = World(now, new_id, compute=compute)
    world.admit({key: await store.get(*key) for key in foresight_reads(job).see}, owned=())
    return world


async def read_comments(store: Store, job: Job) -> tuple[Remark, ...]:
    """All that was said of a job's requests, the oldest first."""
    return remarks(job, await store.get(DISCUSSIONS, job.tenant, job.id))


async def count_votes_needed(store: Store, jobs: Sequence[Job], now: datetime) -> dict[str, int]:
    """How many more people must agree to each of these that waits for people, without votes that no longer count."""
    waiting = [(job, job.approval) for job in jobs if job.approval and job.state_at(now) is JobState.APPROVAL]
    reads = merge_reads([eligibility_reads(job) for job, approval in waiting if approval.votes])
    world = World(now, new_id)
    world.admit({key: await store.get(*key) for key in reads.see}, owned=())
    return {job.id: votes_needed(world, job, approval) for job, approval in waiting}


async def read_audience(store: Store, job: Job) -> Audience:
    """Who looked at a job's requests."""
    found = await store.get(AUDIENCES, job.tenant, job.id)
    return found or Audience(tenant=job.tenant, id=job.id)


async def read_abilities(
    store: Store, now: datetime, caller: Caller, job: Job, approval: Approval
) -> Abilities:
    """What the caller may do about a request, as far as is known now; each command checks it again."""
    world = World(now, new_id)
    reads = abilities_reads(caller, job)
    known = {key: await store.get(*key) for key in reads.see}
    world.admit({**known, JOBS.key_of(job): job}, owned=())
    return abilities(world, caller, job, approval)


async def read_takers(store: Store, job: Job) -> tuple[str, ...]:
    """Who will probably carry a job out: its submitter, or those who took jobs of its topic last, the last first."""
    if job.is_call:
        return (job.submitted_by,)
    if job.is_question:
        return ()
    params = {"tenant": job.tenant, "topic": job.action.topic, "among": _TAKEN_AMONG, "limit": _TAKEN_MAX}
    rows = await store.query("jobs.latest_taken", params)
    leases = [
        each.lease for each in readable(JOBS, (row[0] for row in rows)) if each.lease and not each.is_call
    ]
    leases.sort(key=lambda lease: lease.claimed_at, reverse=True)
    return tuple(dict.fromkeys(lease.worker for lease in leases))[:TAKERS_MAX]


async def read_judging(store: Store, world: World, job: Job, approval: Approval) -> Judging | None:
    """How to find out why the policy asked; None where no policy did, or it or the submitter is not known any more."""
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    if submitter is None or job.is_question:
        return None
    kept = await read_snapshot(store, job.tenant, approval.policy_snapshot)
    if kept is None:
        return None
    return Judging(
        tenant=job.tenant,
        snapshot=kept.id,
        document=kept.document,
        action=job.action,
        actor=submitter,
        priority=job.priority,
        explains=True,
    )


class RuleAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the policy that asked: the one that matched, or one before it with why it did not."""

    id: str
    matched: bool
    why: str


def rules_asked(said: Evaluation, job: Job, approval: Approval) -> tuple[RuleAsked, ...]:
    """The rule that asked and those before it, in the policy's order: the last of them, if they are very many.

    Nothing, if the policy would now say something else of the same job: the submitter may have changed.
    """
    if said.rule != approval.rule:
        return ()
    missed = [RuleAsked(id=each.rule, matched=False, why=each.why) for each in said.trail]
    if said.rule is not None:
        reason = with_people(said, job.action, observing=False).reason
        missed.append(RuleAsked(id=said.rule, matched=True, why=reason))
    return tuple(missed[-RULES_SHOWN_MAX:])


class Escalated(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an escalation, when it opens or did, and whether it has happened."""

    step: Step
    at: datetime
    happened: bool


def escalations(approval: Approval, now: datetime) -> tuple[Escalated, ...]:
    """Every step of a request's escalation. What was decided, or ended, before a step opened does not reach it."""
    until = {ApprovalState.PENDING: now, ApprovalState.EXPIRED: approval.ends_at}.get(approval.state)
    ended_at = until or approval.decided_at
    return tuple(
        Escalated(
            step=step,
            at=approval.opens_at(step),
            happened=number < approval.steps_announced
            or (ended_at is not None and approval.opens_at(step) <= ended_at),
        )
        for number, step in enumerate(approval.requirement.escalate)
    )


async def list_people_able(
    store: Store, world: World, job: Job, approval: Approval
) -> tuple[str, ...] | None:
    """The people who may decide a request, those who voted among them, each by one name, sorted.

    None if it no longer waits for them, or if there are more people than are looked at for a page. `world` is that
    of the request, and learns of the tenant's people.
    """
    if job.state_at(world.now) is not JobState.APPROVAL:
        return None
    people = await list_people(store, job.tenant, limit=PEOPLE_MAX + 1)
    if len(people) > PEOPLE_MAX:
        return None
    world.admit({PRINCIPALS.key_of(each): each for each in people}, owned=())
    return _one_name_each(world, job, approval, people)


def _one_name_each(
    world: World, job: Job, approval: Approval, people: Sequence[Principal]
) -> tuple[str, ...]:
    """Of each distinct person who may decide, the first name with which they may."""
    persons = people_able(world, job, approval, people)
    whose = {name: person for person in persons for name in person}
    able = [each.id for each in people if people_able(world, job, approval, (each,))]
    named = {whose[folded(name)]: name for name in sorted(able, reverse=True)}
    return tuple(sorted(named.values()))


def _state_at(job: Job, now: datetime) -> ApprovalState | None:
    """The request's state by the clock; one whose job's own time is up has expired with it."""
    if job.state is JobState.APPROVAL and job.state_at(now) is JobState.EXPIRED:
        return ApprovalState.EXPIRED
    return job.approval.state if job.approval else None
