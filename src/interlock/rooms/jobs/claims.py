"""Claiming work: which worker gets which job next, and whether a job may run now.

Higher priorities come first; within one priority, the job that has waited longest, whatever its topic. Time is judged
by the batch's clock, so a job whose worker disappeared can be claimed before any sweep has run. A claim that finds no
job stores no answer under its idempotency key, so that the caller may ask again.

A claim requires a permission that exists: the stored request still matches its hash, and the policy in force now
either allows it or asks for people who have approved exactly this. A job without permission leaves the queue, with
the reason in the audit log, so that it does not block others.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias, assert_never

import msgspec

from interlock.kernel.computation import Computation, NotComputed
from interlock.kernel.record import PICKED_MAX, Params, Pick, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.effects.model import EffectAmbiguous
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal, Role
from interlock.rooms.identity.refusals import Forbidden
from interlock.rooms.identity.rules import caller_reads, identify, require
from interlock.rooms.jobs.calls import begin_call, call_reads, check_not_begun, doubt_lost_call
from interlock.rooms.jobs.drift import moved_target, record_drift, target_reads, why_drifted
from interlock.rooms.jobs.holds import JobBackoff, is_lost, lose, take
from interlock.rooms.jobs.model import (
    GRANTED_LABEL,
    JOBS,
    TRANSITIONS,
    Approval,
    ApprovalState,
    Job,
    JobState,
    Requirement,
    StandingGrantRef,
    Verdict,
)
from interlock.rooms.jobs.placement import request_people, requirement_of
from interlock.rooms.jobs.records import announce_job, find_job, record_change
from interlock.rooms.jobs.refusals import (
    CallersOnly,
    HeldElsewhere,
    InGrace,
    NotActionable,
    PermissionMissing,
    PermissionUnclear,
    PermissionWithdrawn,
)
from interlock.rooms.jobs.revisions import revised
from interlock.rooms.policy.action import RANKS
from interlock.rooms.policy.evaluation import Evaluation, past_throttle
from interlock.rooms.policy.language import Decision
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.refusals import PolicyUnavailable, because
from interlock.rooms.policy.rules import judge, policy_in_force
from interlock.rooms.targets.model import Target

_CLAIMED_BYTES_MAX = 4 * 1024 * 1024
_COMPUTED_AT_ONCE = 4


class RunnableJobs(Pick[Job], frozen=True, kw_only=True):
    """The jobs of one topic that may be claimed now, as far as time goes, the next to run first."""

    kind = JOBS
    query = "jobs.runnable_jobs"

    tenant: str
    topic: str

    @property
    def bytes_max(self) -> int:
        """Payloads may be a megabyte each, and a batch of claims asks for a thousand of them."""
        return _CLAIMED_BYTES_MAX

    def params(self, now: datetime) -> Params:
        return {"tenant": self.tenant, "topic": self.topic, "now": micros(now)}

    def matches(self, record: Job, now: datetime) -> bool:
        at = record.runnable_at
        return (
            at is not None
            and at <= now
            and record.tenant == self.tenant
            and record.action.topic == self.topic
        )

    def sort_key(self, record: Job) -> Any:
        return turn_of(record)


def turn_of(job: Job) -> tuple[int, int, str]:
    """A job's place in the queue: priority, then how long it has waited, then its id."""
    at = job.runnable_at
    return (RANKS[job.priority], micros(at) if at else 0, job.id)


class Claimed(msgspec.Struct, frozen=True):
    """A job just handed out, and for how long it had been claimable."""

    job: Job
    waited_seconds: float


class NothingToClaim(Refusal):
    """No job of these topics may run now. `blocked` jobs came first, cannot run, and were moved back."""

    def __init__(self, blocked: tuple[tuple[Job, Blocked], ...] = ()) -> None:
        super().__init__("nothing to do on these topics now; ask again with wait_seconds")
        self.blocked = blocked


class ClaimJobs(Command[tuple[Claimed, ...]], frozen=True, kw_only=True):
    """Hand the next jobs of these topics to the caller. Raises `NothingToClaim`."""

    caller: Caller
    topics: tuple[str, ...]
    most: int
    lease_seconds: int | float
    backoff: JobBackoff

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            see=(HEADS.key(tenant, HEAD_ID),), picks=self._picks(self.most)
        )

    def more(self, world: World) -> Reads:
        """Submitters and targets of all jobs found: this command may get any that the others leave."""
        found = [job for pick in self._picks(PICKED_MAX) for job in world.pick(pick)]
        # A hundred jobs have few submitters: each is named once, not once a job.
        submitters = dict.fromkeys(job.submitted_by for job in found)
        bound = dict.fromkeys(key for job in found if job.action.target for key in target_reads(job).see)
        return Reads(see=(*(PRINCIPALS.key(self.caller.tenant, name) for name in submitters), *bound))

    def decide(self, world: World) -> tuple[Claimed, ...]:
        require(world, self.caller, Role.WORK)
        candidates = [job for pick in self._picks(self.most) for job in world.pick(pick)]
        claimed: list[Claimed] = []
        blocked: list[tuple[Job, Blocked]] = []
        room = _CLAIMED_BYTES_MAX
        unknown: list[Computation[Any]] = []
        for job in sorted(candidates, key=turn_of):
            if len(claimed) == self.most or room <= 0 or len(unknown) >= _COMPUTED_AT_ONCE:
                break
            try:
                now_stands = standing(world, job)
            except NotComputed as missing:
                if claimed:
                    break  # The jobs before it may be handed out meanwhile.
                unknown += missing.computations
                continue
            if unknown:
                continue  # Nothing overtakes a job only because it is large.
            if isinstance(now_stands, Granted):
                room -= len(job.action.payload)
                claimed.append(hand_out(world, job, self.caller, self.lease_seconds, self.backoff))
            else:
                blocked.append((job, now_stands))
        if unknown:
            raise NotComputed(unknown)
        if not claimed:
            raise NothingToClaim(tuple(blocked))
        _clear(world, blocked, self.caller)
        return tuple(claimed)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, NothingToClaim):
            _clear(world, refusal.blocked, self.caller)

    def _picks(self, limit: int) -> tuple[RunnableJobs, ...]:
        return tuple(
            RunnableJobs(limit=limit, tenant=self.caller.tenant, topic=topic) for topic in self.topics
        )


class ClaimJob(Command[Claimed], frozen=True, kw_only=True):
    """Take one job by its id: a worker may, and so may its submitter, to run it itself. One caller wins.

    The job of a gated call is its submitter's alone, and taking it begins the call's effect in the same decision,
    unless the caller says that the call is repeatable.
    """

    caller: Caller
    job_id: str
    lease_seconds: int | float
    backoff: JobBackoff
    repeatable: bool = False

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(JOBS.key(tenant, self.job_id),), see=(HEADS.key(tenant, HEAD_ID),)
        )

    def more(self, world: World) -> Reads:
        job = find_job(world, self.caller.tenant, self.job_id)
        return _standing_reads(job) | call_reads(job)

    def decide(self, world: World) -> Claimed:
        principal = identify(world, self.caller)
        job = find_job(world, self.caller.tenant, self.job_id)
        _check_may_claim(principal, job)
        if job.is_call:
            check_not_begun(world, job)
        if job.lease and job.lease_until and not is_lost(job, world.now):
            raise HeldElsewhere(job.id, job.lease.worker, job.lease_until)
        if not _is_claimable(job):
            state = JobState.FAILED if job.state is JobState.RUNNING else job.state
            raise NotActionable(job.id, state.value, "claim")
        _check_grace(world, job)
        now_stands = standing(world, job)
        if not isinstance(now_stands, Granted):
            raise _refusal_of(job, now_stands)
        return hand_out(world, job, self.caller, self.lease_seconds, self.backoff, repeatable=self.repeatable)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, EffectAmbiguous):
            job = find_job(world, self.caller.tenant, self.job_id)
            if is_lost(job, world.now):
                doubt_lost_call(world, lose(world, job))
        if isinstance(refusal, PermissionWithdrawn | PermissionMissing | PermissionUnclear):
            job = find_job(world, self.caller.tenant, self.job_id)
            now_stands = standing(world, job)
            if not isinstance(now_stands, Granted):
                _clear(world, ((job, now_stands),), self.caller)


def hand_out(
    world: World, job: Job, by: Caller, seconds: float, backoff: JobBackoff, *, repeatable: bool = False
) -> Claimed:
    """Give a job that may run to a caller; if its last worker lost it, that is settled first."""
    waiting = lose(world, job) if job.state is JobState.RUNNING else job
    since = waiting.runnable_at or world.now
    claimed = take(world, waiting, by.principal, seconds, backoff, repeatable=repeatable)
    begin_call(world, claimed, by)
    record_change(world, claimed, by, "claim", attempt=claimed.attempt, fence=claimed.fence)
    announce_job(world, claimed, "job.claimed", attempt=claimed.attempt, fence=claimed.fence, by=by.principal)
    return Claimed(claimed, max(0.0, (world.now - since).total_seconds()))


def _clear(world: World, blocked: Any, by: Caller) -> None:
    for job, why in blocked:
        waiting = lose(world, job) if job.state is JobState.RUNNING else job
        move_away(world, waiting, why, by)


def _standing_reads(job: Job) -> Reads:
    return Reads(see=(PRINCIPALS.key(job.tenant, job.submitted_by),)) | target_reads(job)


def _check_may_claim(principal: Principal, job: Job) -> None:
    is_submitter = principal.id == job.submitted_by and Role.SUBMIT in principal.roles
    if job.is_call and not is_submitter:
        raise CallersOnly(job.id, job.submitted_by)
    if Role.WORK not in principal.roles and not is_submitter:
        raise Forbidden(principal.id, (Role.WORK,))


def _check_grace(world: World, job: Job) -> None:
    """Raise while the decision that released it may be taken back, for every caller."""
    grace_until = job.approval.grace_until if job.approval else None
    if grace_until is not None and job.is_in_grace_at(world.now):
        raise InGrace(job.id, grace_until, (grace_until - world.now).total_seconds())


def _is_claimable(job: Job) -> bool:
    """Whether its state allows a claim: it waits, or it runs and its lease has run out."""
    if not job.is_call:
        return job.runnable_at is not None
    retry_at = job.lease.retry_at if job.lease and job.state is JobState.RUNNING else None
    return job.state is JobState.PENDING or retry_at is not None


def _refusal_of(job: Job, blocked: Blocked) -> Refusal:
    match blocked:
        case Withdrawn(why=why, verdict=verdict):
            return PermissionWithdrawn(job.id, verdict.rule, why)
        case Unasked():
            return PermissionMissing(job.id, JobState.APPROVAL.value, "people have to decide first")
        case Unclear(why=why):
            return PermissionUnclear(job.id, why, UNCLEAR_SECONDS)
        case Overdue():
            return PermissionMissing(job.id, JobState.EXPIRED.value, "its time to begin has passed")
        case Drifted(target=target, evaluation=evaluation):
            state = JobState.APPROVAL if evaluation is not None else JobState.DENIED
            return PermissionMissing(job.id, state.value, why_drifted(job, target))


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


def _is_permitted(job: Job, used: StandingGrantRef, asked: Requirement) -> bool:
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
