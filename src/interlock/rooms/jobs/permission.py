"""Whether a job may run now.

A claim requires a permission that exists: the stored request still matches its hash, and the policy in force now
either allows it or asks for people who have approved exactly this. A job without permission leaves the queue, with
the reason in the audit log, so that it does not block others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias, assert_never

import msgspec

from interlock.kernel.world import World
from interlock.rooms.identity.model import PRINCIPALS, Caller
from interlock.rooms.jobs.drift import moved_target, record_drift, why_drifted
from interlock.rooms.jobs.model import (
    GRANTED_LABEL,
    JOBS,
    TRANSITIONS,
    Approval,
    ApprovalState,
    GrantRef,
    Job,
    Requirement,
    Verdict,
)
from interlock.rooms.jobs.placement import request_people, requirement_of
from interlock.rooms.jobs.records import announce_job, record_change
from interlock.rooms.jobs.revisions import revised
from interlock.rooms.policy.evaluation import Evaluation, past_throttle
from interlock.rooms.policy.language import Decision
from interlock.rooms.policy.model import PolicyUnavailable, because
from interlock.rooms.policy.rules import judge, policy_in_force
from interlock.rooms.targets.model import Target

UNCLEAR_SECONDS = 15


class Granted(msgspec.Struct, frozen=True):
    """It may run."""


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """It may not, and nothing will change that."""

    why: str
    verdict: Verdict
    snapshot: str | None


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """People must be asked first, or again."""

    evaluation: Evaluation
    snapshot: str


class Unclear(msgspec.Struct, frozen=True, kw_only=True):
    """It could not be found out; until it can, the job does not run."""

    why: str


class Overdue(msgspec.Struct, frozen=True):
    """Its time to begin has passed."""


class Drifted(msgspec.Struct, frozen=True, kw_only=True):
    """Its target moved since it was drafted. If the policy asks people, they decide again, on the new version."""

    target: Target
    evaluation: Evaluation | None = None
    snapshot: str = ""


Blocked: TypeAlias = Withdrawn | Unasked | Unclear | Overdue | Drifted
Standing: TypeAlias = Granted | Blocked


def standing(world: World, job: Job) -> Standing:
    """Whether a waiting job may run now, or why not. The policy's head, the submitter and the target must be loaded."""
    if job.expires_at is not None and world.now >= job.expires_at:
        return Overdue()
    if not job.is_intact:
        return _refuse(job, "what is stored no longer matches its hash")
    submitter = world.get(PRINCIPALS, job.tenant, job.submitted_by)
    if submitter is None:
        return _refuse(job, f"its submitter {job.submitted_by} is unknown")
    policy = policy_in_force(world, job.tenant)
    moved = moved_target(world, job)
    if policy.observing and job.action.people is None:
        return Granted() if moved is None else Drifted(target=moved)
    try:
        evaluation = past_throttle(judge(world, job.tenant, job.action, submitter, job.priority))
    except PolicyUnavailable as failed:
        return Unclear(why=failed.detail)
    if moved is not None and evaluation.decision is not Decision.DENY:
        asks = evaluation.decision is Decision.REQUIRE_HUMAN
        return Drifted(target=moved, evaluation=evaluation if asks else None, snapshot=policy.snapshot)
    return _weigh(job, evaluation, policy.snapshot)


def move_away(world: World, job: Job, blocked: Blocked, by: Caller) -> Job:
    """Move a job that may not run into the right state, and audit why."""
    match blocked:
        case Withdrawn():
            return _deny(world, job, blocked, by)
        case Unasked():
            return _ask(world, job, blocked, by)
        case Unclear():
            return _hold_up(world, job, blocked, by)
        case Overdue():
            return _expire(world, job)
        case Drifted():
            return _send_back(world, job, blocked, by)
        case _:
            assert_never(blocked)


def _weigh(job: Job, evaluation: Evaluation, snapshot: str) -> Standing:
    match evaluation.decision:
        case Decision.ALLOW:
            return Granted()
        case Decision.DENY:
            verdict = Verdict(
                decision="deny",
                rule=evaluation.rule,
                reason=evaluation.reason,
                failure=evaluation.failure,
            )
            why = f"the policy now denies it ({because(verdict.rule, verdict.reason)})"
            return Withdrawn(why=why, verdict=verdict, snapshot=snapshot)
        case Decision.THROTTLE:
            return Unclear(why=f"rule {evaluation.rule!r} lets nothing through at present")
        case Decision.REQUIRE_HUMAN:
            asked = requirement_of(evaluation.approval)
            if job.approval and _is_granted(job, job.approval, asked):
                return Granted()
            if job.grant_use and _is_permitted(job, job.grant_use, asked):
                return Granted()
            return Unasked(evaluation=evaluation, snapshot=snapshot)
        case _:
            assert_never(evaluation.decision)


def _is_granted(job: Job, approval: Approval, asked: Requirement) -> bool:
    """Whether people approved exactly this job, under requirements no weaker than those in force."""
    return (
        approval.state is ApprovalState.APPROVED
        and approval.job_hash == job.job_hash
        and job.system_labels.get(GRANTED_LABEL) == "true"
        and _covers(approval.requirement, asked)
    )


def _covers(given: Requirement, asked: Requirement) -> bool:
    """Whether the old requirement is at least as strict as the current one."""
    return (
        given.quorum >= asked.quorum
        and (asked.self_approval or not given.self_approval)
        and (not asked.groups or (bool(given.groups) and set(given.groups) <= set(asked.groups)))
    )


def _is_permitted(job: Job, used: GrantRef, asked: Requirement) -> bool:
    """Whether a standing grant was used for exactly this job, under requirements no weaker than those in force."""
    return used.job_hash == job.job_hash and _covers(used.requirement, asked)


def _refuse(job: Job, why: str) -> Withdrawn:
    verdict = Verdict(decision="deny", rule=job.verdict.rule, reason=why)
    return Withdrawn(why=why, verdict=verdict, snapshot=job.policy_snapshot)


def _deny(world: World, job: Job, withdrawn: Withdrawn, by: Caller) -> Job:
    denied = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "deny"],
        verdict=withdrawn.verdict,
        policy_snapshot=withdrawn.snapshot,
        system_labels=_ungranted(job),
        updated_at=world.now,
    )
    stored = world.put(JOBS, denied)
    record_change(
        world, stored, by, "deny", why=withdrawn.why, when="claim", found=job.action.hash(job.tenant)
    )
    announce_job(world, stored, "job.denied", why=withdrawn.why)
    return stored


def _ask(world: World, job: Job, unasked: Unasked, by: Caller) -> Job:
    round_number = job.approval.round + 1 if job.approval else 1
    evaluation = unasked.evaluation
    approval = request_people(world, evaluation, unasked.snapshot, job.job_hash, job.expires_at, round_number)
    why = "the policy in force asks for people's decision before it runs"
    asked = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "ask"],
        verdict=Verdict(decision="require_human", rule=evaluation.rule, reason=evaluation.reason),
        policy_snapshot=unasked.snapshot,
        approval=approval,
        system_labels=_ungranted(job),
        revisions=revised(world, job, by.principal, why, job.action),
        updated_at=world.now,
    )
    stored = world.put(JOBS, asked)
    record_change(world, stored, by, "ask_again", why=why, when="claim")
    announce_job(world, stored, "approval.requested", round=round_number)
    return stored


def _send_back(world: World, job: Job, drifted: Drifted, by: Caller) -> Job:
    """Ask people again if the policy does; otherwise deny it, so that it is drafted anew for the new version."""
    record_drift(world, job, drifted.target)
    if drifted.evaluation is not None:
        return _ask(world, job, Unasked(evaluation=drifted.evaluation, snapshot=drifted.snapshot), by)
    return _deny(world, job, _refuse(job, why_drifted(job, drifted.target)), by)


def _hold_up(world: World, job: Job, unclear: Unclear, by: Caller) -> Job:
    """Delay it. A reason is audited once, not with every claim."""
    resting = msgspec.structs.replace(
        job, not_before=world.now + timedelta(seconds=UNCLEAR_SECONDS), held_up=unclear.why
    )
    stored = world.put(JOBS, resting)
    if job.held_up != unclear.why:
        record_change(world, stored, by, "claim_held_up", why=unclear.why)
    return stored


def _expire(world: World, job: Job) -> Job:
    expired = msgspec.structs.replace(job, state=TRANSITIONS[job.state, "expire"], updated_at=world.now)
    stored = world.put(JOBS, expired)
    record_change(world, stored, None, "expire")
    announce_job(world, stored, "job.expired")
    return stored


def _ungranted(job: Job) -> dict[str, str]:
    return {name: value for name, value in job.system_labels.items() if name != GRANTED_LABEL}
