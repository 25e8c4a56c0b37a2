"""What would happen: explain one job, or test a candidate policy on past jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator
from time import process_time

import msgspec

from interlock.kernel.storage import Store
from interlock.rooms.identity.model import PRINCIPALS, Principal
from interlock.rooms.jobs.model import Job
from interlock.rooms.policy.action import Action, Failure, Priority
from interlock.rooms.policy.evaluation import (
    Budget,
    Evaluation,
    Missed,
    compile_policy,
    evaluate,
    kept,
    past_throttle,
    with_people,
)
from interlock.rooms.policy.expressions import EVALUATION_SECONDS, ExpressionFailed
from interlock.rooms.policy.judgement import is_quick, policy_input
from interlock.rooms.policy.language import (
    UNAVAILABLE,
    ApprovalRequirement,
    Decision,
    PolicyDocument,
    snapshot_id,
)
from interlock.rooms.policy.model import PolicyHead
from interlock.rooms.policy.refusals import PolicyUnavailable, SimulationTooLong
from interlock.rooms.policy.rules import ActivePolicy, active_policy

_HELD_MAX = 32
_HELD_BYTES_MAX = 256 * 1024


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A job that might be submitted."""

    tenant: str
    action: Action
    actor: Principal
    priority: Priority = Priority.NORMAL


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says, and why: the rule that matched and every earlier one with why it did not.

    With `failure`, the rule's expression could not be answered about this job, which denies it.
    """

    decision: str
    rule: str | None
    reason: str
    snapshot: str
    mode: str
    approval: ApprovalRequirement | None
    then: str | None
    trail: list[Missed]
    failure: Failure | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What was or would be decided. With `failure`, the rule's expression could not be answered, which denies."""

    decision: str
    rule: str | None
    failure: Failure | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the candidate would have treated differently.

    `differs` names in what: `decision`, `rule`, what is asked of people, as a policy spells it (`quorum`, …), or
    `failure` where the candidate denies it too, but because a rule's expression fails on it.
    """

    job_id: str
    topic: str
    before: Said
    after: Said
    differs: list[str]


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    snapshot: str
    examined: int
    changes: tuple[Change, ...]


def explains_quickly(asking: Asking, head: PolicyHead | None) -> bool:
    """Whether to ask the policy in force takes no longer than a moment."""
    if head is None:
        return True
    policy = kept(head.snapshot)
    return policy is not None and is_quick(policy, asking.action)


def explain(asking: Asking, head: PolicyHead | None, candidate: PolicyDocument | None = None) -> Explained:
    """Ask the policy in force, or a candidate, about one job."""
    active = active_policy(head) if candidate is None else _candidate(candidate)
    asked = policy_input(asking.tenant, asking.action, asking.actor, asking.priority)
    try:
        said = evaluate(active.policy, asked, budget=Budget(), explain=True)
    except ExpressionFailed as failed:
        raise PolicyUnavailable(failed.rule, failed.why) from failed
    said = with_people(said, asking.action, observing=active.observing)
    return Explained(
        decision=said.decision.value,
        rule=said.rule,
        reason=said.reason,
        snapshot=active.snapshot,
        mode=active.policy.document.mode.value,
        approval=said.approval,
        then=said.then.value if said.then else None,
        trail=list(said.trail),
        failure=said.failure,
    )


async def simulate(
    candidate: PolicyDocument,
    jobs: AsyncIterable[Job],
    store: Store,
    *,
    last: int,
    clock: Callable[[], float],
    apart: Apart | None = None,
    seconds: float = EVALUATION_SECONDS,
) -> Simulated:
    """Which of these jobs the candidate would have treated differently from what was decided then.

    All of them, `last` at most, are compared within this much processor time, or none (`SimulationTooLong`). `apart`
    compares some of them elsewhere; without it others are served after each job.
    """
    left, examined = seconds, 0
    changes: list[Change] = []
    async for held in _held(jobs, store, most=_HELD_MAX if apart else 1):
        if apart is None:
            await asyncio.sleep(0)
            compared = compare(candidate, held, left, clock)
        else:
            compared = await apart(held, left)
        examined += compared.examined
        left -= compared.seconds
        changes += compared.changes
        if compared.examined < len(held.jobs):
            raise SimulationTooLong(examined, last, seconds)
    return Simulated(snapshot=snapshot_id(candidate), examined=examined, changes=tuple(changes))


class JobPortion(msgspec.Struct, frozen=True):
    """Some jobs to compare a candidate with, and their submitters, as far as they are known."""

    jobs: tuple[Job, ...]
    actors: dict[str, Principal | None]

    @property
    def weight(self) -> int:
        return sum(len(job.action.payload) for job in self.jobs)


class Compared(msgspec.Struct, frozen=True):
    """The candidate's changes for the first of the jobs, and how long that took; not for all if the time was up."""

    changes: list[Change]
    examined: int
    seconds: float


Apart = Callable[[JobPortion, float], Awaitable[Compared]]


def compare(
    candidate: PolicyDocument, held: JobPortion, seconds: float, clock: Callable[[], float] = process_time
) -> Compared:
    """Compare a candidate with these jobs, for at most this long."""
    began, examined = clock(), 0
    changes: list[Change] = []
    active = _candidate(candidate)
    for job in held.jobs:
        if clock() - began >= seconds:
            break
        examined += 1
        change = _change(active, job, held.actors[job.submitted_by])
        if change is not None:
            changes.append(change)
    return Compared(changes, examined, clock() - began)


async def _held(jobs: AsyncIterable[Job], store: Store, *, most: int) -> AsyncGenerator[JobPortion]:
    """The jobs in small portions: between two portions, other tenants have their turn."""
    known: dict[str, Principal | None] = {}
    waiting: list[Job] = []
    weight = 0
    async for job in jobs:
        if job.submitted_by not in known:
            known[job.submitted_by] = await store.get(PRINCIPALS, job.tenant, job.submitted_by)
        waiting.append(job)
        weight += len(job.action.payload)
        if len(waiting) >= most or weight >= _HELD_BYTES_MAX:
            yield _with_actors(waiting, known)
            waiting, weight = [], 0
    if waiting:
        yield _with_actors(waiting, known)


def _with_actors(jobs: list[Job], known: dict[str, Principal | None]) -> JobPortion:
    return JobPortion(tuple(jobs), {job.submitted_by: known[job.submitted_by] for job in jobs})


def _change(active: ActivePolicy, job: Job, actor: Principal | None) -> Change | None:
    """The candidate's change for a job. A workflow's question does not depend on the policy."""
    if job.is_question:
        return None
    said, after = _said(active, job, actor)
    verdict = job.verdict
    before = Said(decision=verdict.observed or verdict.decision, rule=verdict.rule, failure=verdict.failure)
    differs = [*_differences(job, before, after, said)]
    if not differs:
        return None
    return Change(job_id=job.id, topic=job.action.topic, before=before, after=after, differs=differs)


def _differences(job: Job, before: Said, after: Said, said: Evaluation | None) -> Iterator[str]:
    if said and said.decision is Decision.THROTTLE and before == Said(decision="throttle", rule=said.rule):
        return  # It was observed with an empty bucket, which says nothing about the job.
    if before.decision != after.decision:
        yield "decision"
    elif after.failure is not None and after != before:
        yield "failure"
    elif before.decision == Decision.REQUIRE_HUMAN.value:
        if before.rule != after.rule:
            yield "rule"
        if said and said.approval:
            yield from _other_requirements(job, said.approval)


def _other_requirements(job: Job, asks: ApprovalRequirement) -> Iterator[str]:
    """The requirements that are new, as far as the old ones are known."""
    kept = job.approval or job.grant_use
    if kept is None:
        return
    asked = kept.requirement
    steps = tuple((step.after_seconds, step.groups) for step in asked.escalate)
    if asked.expires_seconds != asks.expires_in:
        yield "expires_in"
    if steps != tuple((step.after, step.groups) for step in asks.escalate):
        yield "escalate"
    for name in ("quorum", "groups", "self_approval", "on_expiry", "binding"):
        if getattr(asked, name) != getattr(asks, name):
            yield name


def _said(active: ActivePolicy, job: Job, actor: Principal | None) -> tuple[Evaluation | None, Said]:
    if actor is None:
        return None, Said(decision=Decision.DENY.value, rule=None)
    try:
        asked = policy_input(job.tenant, job.action, actor, job.priority)
        said = with_people(
            evaluate(active.policy, asked, budget=Budget()), job.action, observing=active.observing
        )
    except ExpressionFailed as failed:
        return None, Said(decision=UNAVAILABLE, rule=failed.rule)
    return said, Said(decision=past_throttle(said).decision.value, rule=said.rule, failure=said.failure)


def _candidate(document: PolicyDocument) -> ActivePolicy:
    # Not cached, unlike a policy in force: a thousand expressions take tens of megabytes.
    return ActivePolicy(snapshot_id(document), compile_policy(document), observing=False)
