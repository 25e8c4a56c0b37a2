"""How work on a job ends: completed, to be retried, failed or released; and how a dead letter is retried."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads
from interlock.rooms.jobs.calls import (
    Done,
    InDoubt,
    NotRun,
    call_reads,
    check_no_doubt,
    doubt_settled_call,
    end_call,
)
from interlock.rooms.jobs.holds import Backoff, HolderCommand, end_lease, give_up, requeue
from interlock.rooms.jobs.model import (
    JOBS,
    TRANSITIONS,
    ApprovalState,
    Job,
    JobLease,
    JobState,
    LeaseEnd,
)
from interlock.rooms.jobs.records import announce_job, find_own_job, record_change, record_refusal
from interlock.rooms.jobs.refusals import FenceStale, NotActionable, PermissionMissing


class CompleteJob(HolderCommand, frozen=True, kw_only=True):
    """The work is done. Repeating it under the same fence changes nothing and gives the same answer."""

    result: Any = None
    result_text: str | None = None

    def act(self, world: World, job: Job, lease: JobLease) -> Job:
        done = msgspec.structs.replace(
            job,
            state=TRANSITIONS[job.state, "complete"],
            lease=end_lease(job, LeaseEnd.COMPLETED),
            result=self.result,
            result_text=self.result_text,
            error=None,
            finished_at=world.now,
            updated_at=world.now,
        )
        stored = world.put(JOBS, done)
        end_call(world, stored, self.caller, Done(self.result))
        record_change(world, stored, self.caller, "complete", attempt=job.attempt, fence=job.fence)
        announce_job(world, stored, "job.succeeded", attempt=job.attempt, fence=job.fence)
        return stored

    def ends(self) -> tuple[LeaseEnd, ...]:
        return (LeaseEnd.COMPLETED,)

    def repeats(self, job: Job) -> bool:
        return _is_same(job.result, self.result) and job.result_text == self.result_text

    def refused(self, world: World, refusal: Refusal) -> None:
        super().refused(world, refusal)
        if isinstance(refusal, FenceStale):
            doubt_settled_call(world, self.caller, self.job_id, self.fence)

    def verb(self) -> str:
        return "complete"


class FailJob(HolderCommand, frozen=True, kw_only=True):
    """The work did not succeed. A retryable failure is tried again while attempts last.

    Of a gated call, retryable means that it certainly did nothing; its caller decides when to try again.
    """

    backoff: Backoff
    error: Any
    retryable: bool

    def act(self, world: World, job: Job, lease: JobLease) -> Job:
        if job.is_call:
            return self._end_call(world, job, lease)
        if not self.retryable or job.attempt >= job.max_attempts:
            return give_up(world, job, self.caller, "fail", LeaseEnd.FAILED, self.error)
        at = world.now + self.backoff.after(job)
        return requeue(world, job, self.caller, "fail", LeaseEnd.FAILED, at=at, error=self.error)

    def _end_call(self, world: World, job: Job, lease: JobLease) -> Job:
        if self.retryable or lease.repeatable:
            stored = requeue(world, job, self.caller, "fail", LeaseEnd.FAILED, at=world.now, error=self.error)
            end_call(world, stored, self.caller, NotRun(self.error))
            return stored
        stored = give_up(world, job, self.caller, "fail", LeaseEnd.FAILED, self.error)
        end_call(world, stored, self.caller, InDoubt(self.error))
        return stored

    def ends(self) -> tuple[LeaseEnd, ...]:
        return (LeaseEnd.FAILED,)

    def repeats(self, job: Job) -> bool:
        return _is_same(job.error, self.error) and (self.retryable or job.state is JobState.FAILED)

    def verb(self) -> str:
        return "fail"


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


def _is_same(kept: Any, said: Any) -> bool:
    """Whether two values are the same JSON: in Python, `true` equals 1."""
    return kept == said and canonical(kept) == canonical(said)
