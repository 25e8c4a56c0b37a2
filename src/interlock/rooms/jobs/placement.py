"""What the policy's decision does to a job: it is released, denied, throttled or put before people.

Submit, refresh and edit all use this, so there is only one way to place a job.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

import msgspec

from interlock.kernel.record import NOTHING, PICKED_MAX, Reads
from interlock.kernel.world import World
from interlock.rooms.grants.model import GRANT_TERMS, GRANT_USES, TERMS_ID, Grant
from interlock.rooms.grants.uses import (
    OpenGrants,
    approver_reads,
    broken_signature,
    candidate_reads,
    consume,
    misfit,
    record_refused,
)
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role, all_folded
from interlock.rooms.jobs.model import (
    Approval,
    ApprovalState,
    EscalationStep,
    JobState,
    Requirement,
    StandingGrantRef,
    Verdict,
)
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.evaluation import Evaluation
from interlock.rooms.policy.language import UNAVAILABLE, ApprovalRequirement, Decision
from interlock.rooms.policy.refusals import PolicyThrottled, PolicyUnavailable
from interlock.rooms.policy.rules import bucket_key, judge, may_throttle, policy_in_force, take_token


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job after the policy was asked."""

    state: JobState
    verdict: Verdict
    policy_snapshot: str
    approval: Approval | None = None
    grant_use: StandingGrantRef | None = None


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """The question to the policy: may this actor do this action?"""

    tenant: str
    action: Action
    actor: Principal
    priority: Priority


def placing_reads(world: World, proposal: Proposal) -> Reads:
    """The throttle bucket that placing this proposal would draw from, if any."""
    if not may_throttle(world, proposal.tenant, proposal.action.topic):
        return NOTHING
    asked = _ask(world, proposal, observing=policy_in_force(world, proposal.tenant).observing)
    key = bucket_key(proposal.tenant, asked) if isinstance(asked, Evaluation) else None
    return Reads(own=(key,)) if key else NOTHING


def place(
    world: World, proposal: Proposal, *, job_hash: str, ends_at: datetime | None, round_number: int = 1
) -> Placed:
    """Ask the policy in force and say where the job goes; `PolicyThrottled` if the rate is used up."""
    policy = policy_in_force(world, proposal.tenant)
    evaluation = _ask(world, proposal, observing=policy.observing)
    if isinstance(evaluation, Verdict):
        return _observed(evaluation, policy.snapshot)
    decision = _settle_throttle(world, proposal.tenant, evaluation, observing=policy.observing)
    verdict = Verdict(
        decision=decision.value,
        rule=evaluation.rule,
        reason=evaluation.reason,
        failure=evaluation.failure,
    )
    if policy.observing and proposal.action.people is None:
        return _observed(verdict, policy.snapshot)
    match decision:
        case Decision.ALLOW:
            return Placed(state=JobState.PENDING, verdict=verdict, policy_snapshot=policy.snapshot)
        case Decision.DENY:
            return Placed(state=JobState.DENIED, verdict=verdict, policy_snapshot=policy.snapshot)
        case Decision.REQUIRE_HUMAN:
            approval = request_people(world, evaluation, policy.snapshot, job_hash, ends_at, round_number)
            return Placed(
                state=JobState.APPROVAL, verdict=verdict, policy_snapshot=policy.snapshot, approval=approval
            )
        case Decision.THROTTLE:
            raise PolicyThrottled(evaluation.rule or "default", 1.0)
        case _:
            assert_never(decision)


def ask_anew(
    world: World, approval: Approval, verdict: Verdict, *, tenant: str, job_hash: str, round_number: int
) -> Placed:
    """A new round of a workflow's question: same people, same deadline; the policy is not asked."""
    snapshot = policy_in_force(world, tenant).snapshot
    again = msgspec.structs.replace(
        approval,
        votes=(),
        requested_at=world.now,
        round=round_number,
        policy_snapshot=snapshot,
        job_hash=job_hash,
    )
    return Placed(state=JobState.APPROVAL, verdict=verdict, policy_snapshot=snapshot, approval=again)


def judged_requirement(world: World, proposal: Proposal) -> tuple[str | None, Requirement] | None:
    """Which rule would ask people about this now, and for what; None if none would."""
    evaluation = judge(world, proposal.tenant, proposal.action, proposal.actor, proposal.priority)
    asks = Decision.REQUIRE_HUMAN in (evaluation.decision, evaluation.then)
    return (evaluation.rule, requirement_of(evaluation.approval)) if asks else None


def requirement_of(asked: ApprovalRequirement | None) -> Requirement:
    """A policy's requirement in the form that is kept with the job."""
    if asked is None:
        return Requirement()
    return Requirement(
        quorum=asked.quorum,
        groups=tuple(asked.groups),
        self_approval=asked.self_approval,
        expires_seconds=asked.expires_in,
        on_expiry=asked.on_expiry,
        escalate=tuple(
            EscalationStep(after_seconds=step.after, groups=tuple(step.groups))
            for step in sorted(asked.escalate, key=lambda step: step.after)
        ),
        binding=asked.binding,
        require_hash=asked.require_hash,
        grace_seconds=asked.grace,
    )


def _ask(world: World, proposal: Proposal, *, observing: bool) -> Evaluation | Verdict:
    """The policy's answer. Under `mode: observe`, a policy that takes too long is recorded and stops nothing."""
    try:
        return judge(world, proposal.tenant, proposal.action, proposal.actor, proposal.priority)
    except PolicyUnavailable as failed:
        if not observing or proposal.action.people is not None:
            raise
        reason = f"it could not be evaluated ({failed.why}), so nothing would be released"
        return Verdict(decision=UNAVAILABLE, rule=failed.rule, reason=reason)


def _settle_throttle(world: World, tenant: str, evaluation: Evaluation, *, observing: bool) -> Decision:
    """The result of a throttle: its `then` while there are tokens, else a refusal."""
    if evaluation.decision is not Decision.THROTTLE:
        return evaluation.decision
    empty_for = take_token(world, tenant, evaluation)
    if empty_for is None:
        return evaluation.then or Decision.ALLOW
    if observing:
        return Decision.THROTTLE
    raise PolicyThrottled(evaluation.rule or "default", empty_for)


def _observed(verdict: Verdict, snapshot: str) -> Placed:
    seen = verdict.decision if verdict.decision != Decision.ALLOW.value else None
    released = msgspec.structs.replace(verdict, decision=Decision.ALLOW.value, observed=seen)
    return Placed(state=JobState.PENDING, verdict=released, policy_snapshot=snapshot)


def request_people(
    world: World,
    evaluation: Evaluation,
    snapshot: str,
    job_hash: str,
    ends_at: datetime | None,
    round_number: int,
) -> Approval:
    requirement = requirement_of(evaluation.approval)
    expires_at = world.now + timedelta(seconds=requirement.expires_seconds)
    return Approval(
        state=ApprovalState.PENDING,
        requirement=requirement,
        rule=evaluation.rule,
        policy_snapshot=snapshot,
        job_hash=job_hash,
        requested_at=world.now,
        expires_at=min(expires_at, ends_at) if ends_at else expires_at,
        ends_by=ends_at if requirement.on_expiry == "escalate" else None,
        round=round_number,
    )


# One grant for each of many repositories is usual, and the newest may be the one that fits.
_CANDIDATES_MAX = 64
_BROKEN_MAX = 5


def standing_reads(tenant: str, topic: str) -> Reads:
    """The oldest standing grants of a topic."""
    return Reads(picks=(_pick(tenant, topic),))


def standing_more(world: World, tenant: str, topic: str) -> Reads:
    """The grants that were found, and who issued and signed them. Nothing if there is no standing grant."""
    found = world.pick(_pick(tenant, topic, PICKED_MAX))
    if not found:
        return Reads()
    see = Reads(see=(GRANT_TERMS.key(tenant, TERMS_ID),))
    return world.once(candidate_reads, found) | world.once(approver_reads, found) | see


def honour_standing(
    world: World, caller: Caller, proposal: Proposal, placed: Placed, *, job_id: str, job_hash: str
) -> Placed:
    """A job that would wait for people is released if a standing grant fits; one use of it is consumed."""
    if placed.state is not JobState.APPROVAL or placed.approval is None:
        return placed
    requirement = placed.approval.requirement
    payload = msgspec.json.decode(proposal.action.payload)
    broken: list[tuple[Grant, str]] = []
    for grant in world.pick(_pick(proposal.tenant, proposal.action.topic)):
        if not _may_say_yes(world, grant, requirement, proposal.actor):
            continue
        if misfit(world, grant, proposal.action.topic, payload) is None:
            use = world.add(GRANT_USES, consume(world, caller, grant, payload, job_id))
            ref = StandingGrantRef(grant_id=grant.id, use=use.use, job_hash=job_hash, requirement=requirement)
            return Placed(
                state=JobState.PENDING,
                verdict=placed.verdict,
                policy_snapshot=placed.policy_snapshot,
                grant_use=ref,
            )
        if len(broken) < _BROKEN_MAX and (why := broken_signature(world, grant, payload)):
            broken.append((grant, why))
    for grant, why in broken:
        record_refused(world, caller, "grant_claim", grant.id, why, execution_id=job_id)
    return placed


def _may_say_yes(world: World, grant: Grant, asked: Requirement, actor: Principal) -> bool:
    approver = world.get(PRINCIPALS, grant.tenant, grant.approver)
    return (
        asked.quorum == 1
        and approver is not None
        and approver.can_act
        and approver.kind is PrincipalKind.PERSON
        and Role.REVIEW in approver.roles
        and (not asked.groups or bool(set(asked.groups) & set(approver.groups)))
        and (asked.self_approval or _is_another_person(grant, approver, actor))
    )


def _is_another_person(grant: Grant, approver: Principal, actor: Principal) -> bool:
    """Whether approver and actor are different people, by all of their names. After a change of owner, it is not."""
    if approver.person not in (approver.id, grant.approver_person):
        return False
    return all_folded(approver.people).isdisjoint(all_folded(actor.people))


def _pick(tenant: str, topic: str, limit: int = _CANDIDATES_MAX) -> OpenGrants:
    return OpenGrants(tenant=tenant, task=topic, standing=True, limit=limit)
