"""Submit a job, cancel it, and retry one that failed for good."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import note
from interlock.rooms.events.model import EventType
from interlock.rooms.identity.model import Caller, Principal, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.jobs.calls import (
    call_reads,
    check_no_doubt,
)
from interlock.rooms.jobs.holds import end_lease
from interlock.rooms.jobs.model import (
    JOBS,
    TRANSITIONS,
    ApprovalState,
    Evidence,
    Executor,
    Job,
    JobState,
    LeaseEnd,
)
from interlock.rooms.jobs.placement import (
    Placed,
    Proposal,
    honour_standing,
    place,
    placing_reads,
    standing_more,
    standing_reads,
)
from interlock.rooms.jobs.records import (
    DECISION_REFUSALS,
    announce_job,
    find_own_job,
    record_change,
    record_refusal,
)
from interlock.rooms.jobs.refusals import NotActionable, PermissionMissing
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.refusals import PolicyThrottled, PolicyUnavailable

_ANNOUNCED: Mapping[JobState, EventType] = {
    JobState.PENDING: "job.released",
    JobState.APPROVAL: "approval.requested",
    JobState.DENIED: "job.denied",
}


class SubmitJob(Command[Job], frozen=True, kw_only=True):
    """Propose an action. The policy decides at once whether it is released, denied or put before people.

    Without a `job_id` the job gets a fresh one, in the order of decisions.
    """

    caller: Caller
    job_id: str | None = None
    action: Action
    priority: Priority = Priority.NORMAL
    evidence: tuple[Evidence, ...] = ()
    expires_seconds: int | None = None
    max_attempts: int = 3
    run_id: str | None = None
    executor: Executor = Executor.WORKER

    def reads(self) -> Reads:
        see = Reads(see=(HEADS.key(self.caller.tenant, HEAD_ID),))
        return caller_reads(self.caller) | see | standing_reads(self.caller.tenant, self.action.topic)

    def more(self, world: World) -> Reads:
        submitter = require(world, self.caller, Role.SUBMIT)
        placing = placing_reads(world, self._proposal(submitter))
        return placing | standing_more(world, self.caller.tenant, self.action.topic)

    def decide(self, world: World) -> Job:
        submitter = require(world, self.caller, Role.SUBMIT)
        seconds = self.expires_seconds
        ends_at = world.now + timedelta(seconds=seconds) if seconds is not None else None
        job_hash = self.action.hash(self.caller.tenant)
        proposal = self._proposal(submitter)
        job_id = self.job_id or world.new_id("job")
        placed = place(world, proposal, job_hash=job_hash, ends_at=ends_at)
        placed = honour_standing(world, self.caller, proposal, placed, job_id=job_id, job_hash=job_hash)
        job = world.add(JOBS, self._job(world, job_id, submitter, placed, job_hash, ends_at))
        self._record(world, job)
        return job

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, PolicyThrottled | PolicyUnavailable):
            note(
                world,
                self.caller,
                "submit_refused",
                self.action.topic,
                outcome=type(refusal).__name__,
                rule=refusal.rule,
                subject_hash=self.action.hash(self.caller.tenant),
            )

    def _proposal(self, submitter: Principal) -> Proposal:
        return Proposal(
            tenant=self.caller.tenant, action=self.action, actor=submitter, priority=self.priority
        )

    def _job(
        self,
        world: World,
        job_id: str,
        submitter: Principal,
        placed: Placed,
        job_hash: str,
        ends_at: datetime | None,
    ) -> Job:
        return Job(
            tenant=self.caller.tenant,
            id=job_id,
            action=self.action,
            state=placed.state,
            job_hash=job_hash,
            policy_snapshot=placed.policy_snapshot,
            verdict=placed.verdict,
            approval=placed.approval,
            grant_use=placed.grant_use,
            priority=self.priority,
            evidence=self.evidence,
            submitted_by=submitter.id,
            submitter_people=tuple(sorted(submitter.people)),
            submitted_at=world.now,
            updated_at=world.now,
            expires_at=ends_at,
            max_attempts=self.max_attempts,
            run_id=self.run_id,
            executor=self.executor,
        )

    def _record(self, world: World, job: Job) -> None:
        used = {"grant_id": job.grant_use.grant_id, "use": job.grant_use.use} if job.grant_use else None
        record_change(world, job, self.caller, "submit", grant_use=used)
        announce_job(world, job, _ANNOUNCED[job.state])


class CancelJob(Command[Job], frozen=True, kw_only=True):
    """Withdraw a job that has not finished, as its submitter or an operator. Repeating is harmless."""

    caller: Caller
    job_id: str
    reason: str = ""

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def decide(self, world: World) -> Job:
        job = find_own_job(world, self.caller, self.job_id)
        if job.state is JobState.CANCELLED:
            return job
        state = job.state_at(world.now)
        if (state, "cancel") not in TRANSITIONS:
            raise NotActionable(job.id, state.value, "cancel")
        return cancel(world, job, self.caller, self.reason)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, "cancel", self.job_id, refusal)


class RetryJob(Command[Job], frozen=True, kw_only=True):
    """Put a dead letter back into the queue, with all its attempts again. Of several callers one wins."""

    caller: Caller
    job_id: str
    reason: str = ""

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def more(self, world: World) -> Reads:
        return call_reads(world.get(JOBS, self.caller.tenant, self.job_id))

    def decide(self, world: World) -> Job:
        job = find_own_job(world, self.caller, self.job_id)
        check_no_doubt(world, job)
        after = TRANSITIONS.get((job.state, "retry"))
        if after is None:
            raise NotActionable(job.id, job.state.value, "retry", by=job.retried_by, at=job.retried_at)
        if job.is_over_at(world.now):
            # In the queue it would expire at once, and would no longer be a dead letter.
            raise PermissionMissing(job.id, job.state.value, "its time to begin has passed")
        waiting = msgspec.structs.replace(
            job, state=after, attempt=0, not_before=world.now, finished_at=None, updated_at=world.now,
            retried_by=self.caller.principal, retried_at=world.now,
        )  # fmt: skip
        stored = world.put(JOBS, waiting)
        record_change(world, stored, self.caller, "retry", reason=self.reason)
        announce_job(world, stored, "job.retried", by=self.caller.principal)
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, NotActionable | PermissionMissing):
            record_refusal(world, self.caller, "retry", self.job_id, refusal)


def cancel(world: World, job: Job, by: Caller | None, reason: str) -> Job:
    """Cancel a job that is not done. A worker that holds it learns it at its next call; no worker gets it again."""
    approval = job.approval
    if approval and approval.state is ApprovalState.PENDING:
        approval = msgspec.structs.replace(approval, state=approval.after("withdraw"))
    gone = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "cancel"],
        approval=approval,
        lease=end_lease(job, LeaseEnd.CANCELLED) if job.lease_until else job.lease,
        updated_at=world.now,
        finished_at=world.now,
    )
    stored = world.put(JOBS, gone)
    record_change(world, stored, by, "cancel", reason=reason)
    announce_job(world, stored, "job.cancelled")
    return stored
