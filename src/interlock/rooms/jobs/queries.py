"""Reading jobs, targets with the jobs that wait for them, and approval requests with what a person may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import made_at, new_id
from interlock.kernel.pages import Records, page_of, readable
from interlock.kernel.record import Reads, merge_reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.storage import Store, cut
from interlock.kernel.world import World
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal, folded
from interlock.rooms.identity.queries import list_people
from interlock.rooms.identity.rules import caller_reads, identify
from interlock.rooms.jobs.approvals import (
    check_undecided,
    eligibility_reads,
    is_whole,
    open_request,
    people_able,
    people_who_agree,
    require_person,
    still_asks,
)
from interlock.rooms.jobs.audience import Audience
from interlock.rooms.jobs.discussion import Remark, remarks
from interlock.rooms.jobs.drift import moved_target, target_reads
from interlock.rooms.jobs.model import (
    AUDIENCES,
    DISCUSSIONS,
    JOBS,
    Approval,
    ApprovalState,
    EscalationStep,
    Job,
    JobState,
)
from interlock.rooms.jobs.revisions import EditJob, RefreshApproval
from interlock.rooms.jobs.withdrawal import has_voted, votes_without, withdrawable
from interlock.rooms.leases.model import LEASES, NODES, Lease, ancestors_of
from interlock.rooms.policy.evaluation import Evaluation, with_people
from interlock.rooms.policy.judgement import Judging
from interlock.rooms.policy.matching import topics_test
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.queries import read_snapshot
from interlock.rooms.policy.refusals import PolicyUnavailable
from interlock.rooms.targets.model import TARGETS, Target

DEAD_COUNTED_MAX = 10_000
AWAITING_COUNTED_MAX = 10_000

_EXACT_MAX = 4
_TOPICS_MAX = 16
_TOPIC_PAGE = 500
_TOPIC_PAGES_MAX = 20
_CLOCK_SLACK_MICROS = 2_000_000


async def read_job(store: Store, tenant: str, job_id: str) -> Job | None:
    return await store.get(JOBS, tenant, job_id)


async def list_jobs(
    store: Store,
    tenant: str,
    *,
    state: JobState | None,
    topic: str | None,
    now: datetime,
    before: str | None,
    limit: int,
) -> Records[Job]:
    """Jobs, newest first, narrowed by topic and by state as of `now`."""
    name, params = listing_of(tenant, state, topic, now)
    # A due job may be due for an escalation only, so the rule decides by the clock, not the query.
    return await page_of(
        store, JOBS, name, params, before, limit, keep=lambda job: state in (None, job.state_at(now))
    )


def listing_of(
    tenant: str, state: JobState | None, topic: str | None, now: datetime
) -> tuple[str, dict[str, Any]]:
    """The query that lists jobs of one topic and state, newest first, and its parameters but for the page's."""
    is_expired = state is JobState.EXPIRED
    given = {"state": state.value if state and not is_expired else None, "topic": topic}
    by = {name: value for name, value in given.items() if value is not None}
    listing = "list_expired_jobs" if is_expired else "list_jobs"
    name = f"jobs.{listing}{'_by_' if by else ''}{'_and_'.join(by)}"
    return name, {"tenant": tenant, **by, **({"now": micros(now)} if is_expired else {})}


async def list_observed(store: Store, tenant: str, *, before: str | None, limit: int) -> Records[Job]:
    """Jobs that enforcement would have stopped, newest first."""
    return await page_of(store, JOBS, "jobs.list_observed", {"tenant": tenant}, before, limit)


async def topics_to_claim(
    store: Store, tenant: str, patterns: Sequence[str], now: datetime
) -> tuple[str, ...]:
    """The exact topics that a claim should look at: a few exact ones as they are, else those with work.

    Globs become the topics that have work now, those whose first job is next in turn first. A topic that gets
    work a moment later is found the next time, to which its wake-up leads.
    """
    if len(patterns) <= _EXACT_MAX and not any("*" in pattern for pattern in patterns):
        return tuple(dict.fromkeys(patterns))
    wanted = topics_test(tuple(patterns))
    turns: list[tuple[bool, int, str]] = []
    after = ""
    for _ in range(_TOPIC_PAGES_MAX):
        params = {
            "tenant": tenant,
            "after": after,
            "now": micros(now) + _CLOCK_SLACK_MICROS,
            "limit": _TOPIC_PAGE,
        }
        rows = await store.query("jobs.runnable_topics", params)
        turns += [(turn is None, int(turn or 0), topic) for topic, turn in rows if wanted(topic)]
        if len(rows) < _TOPIC_PAGE:
            break
        after = rows[-1][0]
    return tuple(topic for _, _, topic in sorted(turns)[:_TOPICS_MAX])


async def count_dead(store: Store) -> int:
    """How many dead letters there are, counted up to a bound."""
    return int((await store.query("jobs.count_dead", {"limit": DEAD_COUNTED_MAX}))[0][0])


async def count_dead_of(store: Store, tenant: str, *, limit: int) -> int:
    """How many dead letters a tenant has, counted up to `limit`."""
    return int((await store.query("jobs.count_dead_of_tenant", {"tenant": tenant, "limit": limit}))[0][0])


class Awaiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for people in a tenant: how many requests, and since when the oldest."""

    tenant: str
    count: int
    since: datetime


async def count_awaiting(store: Store) -> list[Awaiting]:
    """What waits for people, by tenant, counted up to a bound in all."""
    rows = await store.query("jobs.count_awaiting", {"limit": AWAITING_COUNTED_MAX})
    return [Awaiting(tenant=row[0], count=int(row[1]), since=made_at(row[2])) for row in rows]


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """How many more people must agree, not counting votes that no longer count; `obstacle` stops every approval."""

    votes_needed: int
    obstacle: str | None


def submitted_for(world: World, job: Job) -> str | None:
    """The person that a job's submitter acts for, at the end of its chain of owners; None if it acts for itself.

    `world` knows those of `eligibility_reads`.
    """
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    return submitter.person if submitter and submitter.person != submitter.id else None


def foresight_reads(job: Job) -> Reads:
    """The records that `foresee` needs in addition to the job."""
    return Reads(see=(HEADS.key(job.tenant, HEAD_ID),)) | eligibility_reads(job) | target_reads(job)


def foresee(world: World, job: Job, approval: Approval) -> Foreseen:
    """What an approval by an eligible reviewer would meet now."""
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
    """A world with the last committed records that `foresee` needs; nothing can be decided in it."""
    world = World(now, new_id, compute=compute)
    world.admit({key: await store.get(*key) for key in foresight_reads(job).see}, owned=())
    return world


async def read_comments(store: Store, job: Job) -> tuple[Remark, ...]:
    """All comments on a job's requests, the oldest first."""
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
    """What is needed to find out why the policy asked; None if no policy did, or if it or the submitter is gone."""
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

    step: EscalationStep
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


# Sort before and after every character that a key may have.
_BEFORE_ALL = "\x01"
_AFTER_ALL = "\U0010ffff"


async def read_target(store: Store, tenant: str, key: str) -> Target | None:
    return await store.get(TARGETS, tenant, key)


async def list_targets(
    store: Store, tenant: str, *, prefix: str | None, after: str | None, limit: int
) -> Records[Target]:
    """Targets by key; with `prefix`, those whose keys begin with it."""
    params = {"tenant": tenant, "limit": limit + 1}
    if prefix:
        low = prefix if after is None or after < prefix else after + _BEFORE_ALL
        bounds = {"low": low, "high": prefix + _AFTER_ALL}
        rows = await store.query("targets.list_targets_under", {**params, **bounds})
    else:
        rows = await store.query("targets.list_targets", {**params, "after": after or ""})
    found = readable(TARGETS, (row[0] for row in rows))
    return Records(*cut(found, limit, lambda target: target.id, rows=len(rows)))


async def list_waiting_on(store: Store, tenant: str, key: str, *, limit: int) -> list[Job]:
    """Jobs that have not run yet and would change a target, newest first."""
    params = {"tenant": tenant, "target": key, "limit": limit}
    return readable(JOBS, (row[0] for row in await store.query("targets.list_jobs_waiting_on", params)))


async def count_waiting_on(store: Store, tenant: str, key: str, *, limit: int) -> int:
    """How many jobs that have not run yet would change a target, counted up to `limit`."""
    params = {"tenant": tenant, "target": key, "limit": limit}
    return int((await store.query("targets.count_jobs_waiting_on", params))[0][0])


async def list_holders(store: Store, tenant: str, key: str, now: datetime) -> list[Lease]:
    """The live leases that cover a target: on it, or on everything above it."""
    found: list[Lease] = []
    for path in (*ancestors_of(key), key):
        node = await store.get(NODES, tenant, path)
        for holder in node.holders if node else ():
            lease = await store.get(LEASES, tenant, holder.lease_id)
            if lease and lease.is_live_at(now) and (holder.tree or path == key):
                found.append(lease)
    return found


_NO_PAYLOAD = msgspec.Raw(b"{}")


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do now. `why_not` is what an approve or a reject would be refused with."""

    why_not: Refusal | None
    voted: bool
    may_withdraw: bool
    may_edit: bool
    may_refresh: bool


def abilities_reads(caller: Caller, job: Job) -> Reads:
    """What `abilities` looks at."""
    return caller_reads(caller) | Reads(see=(JOBS.key(job.tenant, job.id),)) | eligibility_reads(job)


def abilities(world: World, caller: Caller, job: Job, approval: Approval) -> Abilities:
    """What this caller may do about a request. That it has drifted stops a yes, but not a decision: see `foresee`."""
    refresh = RefreshApproval(caller=caller, job_id=job.id, submitter=job.submitted_by)
    edit = EditJob(caller=caller, job_id=job.id, submitter=job.submitted_by, payload=_NO_PAYLOAD, reason="")
    return Abilities(
        why_not=refusal_to_decide(world, caller, job),
        voted=has_voted(approval, identify(world, caller)),
        may_withdraw=_refusal(lambda: _check_withdrawal(world, caller, job)) is None,
        may_edit=_refusal(lambda: edit.admitted(world)) is None,
        may_refresh=_refusal(lambda: refresh.admitted(world)) is None,
    )


def refusal_to_decide(world: World, caller: Caller, job: Job) -> Refusal | None:
    """None if this caller may decide the job's request now, else what a decision would be refused with."""

    def check() -> None:
        _, _, approval = open_request(world, caller, job.id, "decide")
        check_undecided(job, approval)

    return _refusal(check)


def _check_withdrawal(world: World, caller: Caller, job: Job) -> None:
    votes_without(job, withdrawable(world, job), require_person(world, caller))


def _refusal(check: Callable[[], object]) -> Refusal | None:
    try:
        check()
    except Refusal as refusal:
        return refusal
    return None
