"""What would happen: one job explained, or a candidate policy held against jobs that were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from interlock.identity.model import PRINCIPALS, Principal
from interlock.jobs.model import Action, Job, Priority
from interlock.policy.evaluate import Budget, Evaluation, Missed, compiled, evaluate, past_throttle
from interlock.policy.expressions import EVALUATION_SECONDS, ExpressionFailed
from interlock.policy.language import (
    UNAVAILABLE,
    ApprovalRequirement,
    Decision,
    PolicyDocument,
    canonical_policy,
    snapshot_id,
)
from interlock.policy.model import PolicyHead
from interlock.policy.refusals import PolicyUnavailable, SimulationTooLong
from interlock.policy.rules import ActivePolicy, active_policy, policy_input
from interlock.store.contract import Store


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A job that might be submitted."""

    tenant: str
    action: Action
    actor: Principal
    priority: Priority = Priority.NORMAL


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says, and why: the rule that matched and every earlier one with why it did not."""

    decision: str
    rule: str | None
    reason: str
    snapshot: str
    mode: str
    approval: ApprovalRequirement | None
    then: str | None
    trail: list[Missed]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    decision: str
    rule: str | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the candidate would have treated differently."""

    job_id: str
    topic: str
    before: Said
    after: Said


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    snapshot: str
    changes: tuple[Change, ...]


def explain(asking: Asking, head: PolicyHead | None, candidate: PolicyDocument | None = None) -> Explained:
    """Ask the policy in force, or a candidate, about one job."""
    active = active_policy(head) if candidate is None else _candidate(candidate)
    asked = policy_input(asking.tenant, asking.action, asking.actor, asking.priority)
    try:
        said = evaluate(active.policy, asked, budget=Budget(), explain=True)
    except ExpressionFailed as failed:
        raise PolicyUnavailable(failed.rule, failed.why) from failed
    return Explained(
        decision=said.decision.value,
        rule=said.rule,
        reason=said.reason,
        snapshot=active.snapshot,
        mode=active.policy.document.mode.value,
        approval=said.approval,
        then=said.then.value if said.then else None,
        trail=list(said.trail),
    )


async def simulate(
    candidate: PolicyDocument,
    jobs: Sequence[Job],
    store: Store,
    *,
    clock: Callable[[], float],
    seconds: float = EVALUATION_SECONDS,
) -> Simulated:
    """Which of these jobs the candidate would have treated differently from what was decided then.

    All of them are answered within the time, or none: `SimulationTooLong`. Others are served in between.
    """
    active = _candidate(candidate)
    until = clock() + seconds
    actors: dict[tuple[str, str], Principal | None] = {}
    changes: list[Change] = []
    for examined, job in enumerate(jobs):
        if clock() >= until:
            raise SimulationTooLong(examined, len(jobs), seconds)
        await asyncio.sleep(0)
        who = (job.tenant, job.submitted_by)
        if who not in actors:
            actors[who] = await store.get(PRINCIPALS, *who)
        after = _said(active, job, actors[who])
        before = Said(decision=job.verdict.observed or job.verdict.decision, rule=job.verdict.rule)
        if _differs(before, after):
            changes.append(Change(job_id=job.id, topic=job.action.topic, before=before, after=after))
    return Simulated(snapshot=active.snapshot, changes=tuple(changes))


def _differs(before: Said, after: Said) -> bool:
    """Another decision; or people are asked by another rule, and so perhaps for something else."""
    asks = before.decision == Decision.REQUIRE_HUMAN.value
    return before.decision != after.decision or (asks and before.rule != after.rule)


def _said(active: ActivePolicy, job: Job, actor: Principal | None) -> Said:
    if actor is None:
        return Said(decision=Decision.DENY.value, rule=None)
    try:
        asked = policy_input(job.tenant, job.action, actor, job.priority)
        said: Evaluation = past_throttle(evaluate(active.policy, asked, budget=Budget()))
    except ExpressionFailed as failed:
        return Said(decision=UNAVAILABLE, rule=failed.rule)
    return Said(decision=said.decision.value, rule=said.rule)


def _candidate(document: PolicyDocument) -> ActivePolicy:
    spelled = canonical_policy(document)
    snapshot = snapshot_id(spelled)
    return ActivePolicy(snapshot, compiled(snapshot, spelled), observing=False)
