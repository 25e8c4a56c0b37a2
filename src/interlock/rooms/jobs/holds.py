"""A worker's hold on a job: it is claimed and renewed, and ends by complete, fail, release or loss.

Time is judged by the batch's clock. An expired lease is lost, even if nobody else has claimed the job and no sweep
has run: a worker that could finish late would race with the next one.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller, Role
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.jobs.calls import (
    Done,
    InDoubt,
    NotRun,
    call_reads,
    doubt_settled_call,
    end_call,
    renew_call,
)
from interlock.rooms.jobs.model import (
    JOBS,
    TRANSITIONS,
    Job,
    JobLease,
    JobState,
    LeaseEnd,
)
from interlock.rooms.jobs.records import (
    announce_job,
    find_job,
    record_change,
    record_stale_fence,
    stale_fence_reads,
)
from interlock.rooms.jobs.refusals import FenceStale

_DOUBLINGS_MAX = 40


class JobBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """The delay after a failed attempt: doubled each time, up to `most_seconds`, with jitter."""

    base_seconds: float = 1.0
    most_seconds: float = 300.0

    def after(self, job: Job) -> timedelta:
        """The delay after the current attempt. The jitter comes from the job, so that rules stay pure."""
        full = min(self.most_seconds, self.base_seconds * 2 ** min(max(job.attempt, 1) - 1, _DOUBLINGS_MAX))
        seed = hashlib.sha256(f"{job.id}/{job.fence}/{job.attempt}".encode()).digest()
        share = int.from_bytes(seed[:4]) / 2**32
        return timedelta(seconds=full * (0.5 + share / 2))


def is_lost(job: Job, now: datetime) -> bool:
    """Whether the worker that held it has lost it by the clock."""
    return job.lease_until is not None and job.lease_until <= now


def take(
    world: World, job: Job, worker: str, seconds: float, backoff: JobBackoff, *, repeatable: bool = False
) -> Job:
    """Give a runnable job to a worker under the next fence."""
    claimed = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "claim"],
        attempt=max(job.attempt, 1),
        fence=world.next_fence(job.fence),
        not_before=None,
        held_up=None,
        offered=0,
        offered_at=None,
        updated_at=world.now,
    )
    lease = _lease(world, claimed, worker, world.now, seconds, backoff, repeatable=repeatable)
    return world.put(JOBS, msgspec.structs.replace(claimed, lease=lease))


def lose(world: World, job: Job) -> Job:
    """Settle a lease that ran out: another attempt follows or, after the last, it is a dead letter."""
    lease = job.lease
    if lease is None:
        raise ValueError(f"{job.id} has no lease to lose")
    if lease.retry_at is None:
        error = {"type": "lease_lost", "message": f"{lease.worker} stopped renewing", "attempt": job.attempt}
        return give_up(world, job, None, "lose", LeaseEnd.LOST, error)
    return requeue(world, job, None, "lose", LeaseEnd.LOST, at=lease.retry_at, error=job.error)


def requeue(
    world: World, job: Job, by: Caller | None, action: str, end: LeaseEnd, *, at: datetime, error: Any
) -> Job:
    """Put a job back for its next attempt."""
    waiting = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "requeue"],
        attempt=job.attempt + 1,
        lease=end_lease(job, end),
        not_before=at,
        error=error,
        updated_at=world.now,
    )
    stored = world.put(JOBS, waiting)
    record_change(world, stored, by, action, attempt=job.attempt, fence=job.fence, not_before=_text(at))
    event = "job.lease_lost" if end is LeaseEnd.LOST else "job.retrying"
    announce_job(world, stored, event, attempt=job.attempt, fence=job.fence)
    return stored


def give_up(world: World, job: Job, by: Caller | None, action: str, end: LeaseEnd, error: Any) -> Job:
    """Make a job a dead letter."""
    dead = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, "give_up"],
        lease=end_lease(job, end),
        error=error,
        finished_at=world.now,
        updated_at=world.now,
    )
    stored = world.put(JOBS, dead)
    record_change(world, stored, by, action, attempt=job.attempt, fence=job.fence)
    announce_job(world, stored, "job.failed", attempt=job.attempt, fence=job.fence)
    return stored


def end_lease(job: Job, end: LeaseEnd) -> JobLease | None:
    """The job's lease, marked with how it ended, so that a repeat of the ending call can be told from a late one."""
    return msgspec.structs.replace(job.lease, ended=end) if job.lease else None


class HolderCommand(Command[Job], frozen=True, kw_only=True):
    """What every command of a lease's holder shares: the fence, the principal and the clock must agree."""

    caller: Caller
    job_id: str
    fence: int

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(JOBS.key(self.caller.tenant, self.job_id),))

    def more(self, world: World) -> Reads:
        job = world.get(JOBS, self.caller.tenant, self.job_id)
        return stale_fence_reads(world, self.caller, self.job_id, self.fence) | call_reads(job)

    def decide(self, world: World) -> Job:
        require(world, self.caller, Role.WORK, Role.SUBMIT)
        job = find_job(world, self.caller.tenant, self.job_id)
        lease = job.lease
        if lease and lease.worker == self.caller.principal and job.fence == self.fence:
            if lease.ended is None and job.state is JobState.RUNNING and not is_lost(job, world.now):
                return self.act(world, job, lease)
            if lease.ended is not None and lease.ended in self.ends() and self.repeats(job):
                return job
        raise FenceStale(
            job.id,
            fence=self.fence,
            state=job.state.value,
            holder=lease.worker if lease and lease.ended is None else None,
        )

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, FenceStale):
            record_stale_fence(world, self.caller, self.verb(), refusal)

    def act(self, world: World, job: Job, lease: JobLease) -> Job:
        """Do it; the caller holds the job."""
        raise NotImplementedError

    def ends(self) -> tuple[LeaseEnd, ...]:
        """How this command ends a lease: repeating it is then harmless."""
        return ()

    def repeats(self, job: Job) -> bool:
        """Whether a repeat reports the same as the first call; another report must not be dropped silently."""
        return True

    def verb(self) -> str:
        raise NotImplementedError


class RenewJob(HolderCommand, frozen=True, kw_only=True):
    """Keep a job for another lease's length, and perhaps leave a checkpoint for the next worker."""

    backoff: JobBackoff
    checkpoint: Any = None

    def act(self, world: World, job: Job, lease: JobLease) -> Job:
        marked = job if self.checkpoint is None else msgspec.structs.replace(job, checkpoint=self.checkpoint)
        renewed = _lease(
            world,
            marked,
            lease.worker,
            lease.claimed_at,
            lease.seconds,
            self.backoff,
            repeatable=lease.repeatable,
        )
        stored = world.put(JOBS, msgspec.structs.replace(marked, lease=renewed, updated_at=world.now))
        renew_call(world, stored)
        return stored

    def verb(self) -> str:
        return "renew"


class ReleaseJob(HolderCommand, frozen=True, kw_only=True):
    """Give a job back untouched: the next worker gets it at once, and no attempt is counted."""

    checkpoint: Any = None

    def act(self, world: World, job: Job, lease: JobLease) -> Job:
        released = msgspec.structs.replace(
            job,
            state=TRANSITIONS[job.state, "release"],
            lease=end_lease(job, LeaseEnd.RELEASED),
            not_before=world.now,
            checkpoint=job.checkpoint if self.checkpoint is None else self.checkpoint,
            updated_at=world.now,
        )
        stored = world.put(JOBS, released)
        end_call(world, stored, self.caller, NotRun())
        record_change(world, stored, self.caller, "release", fence=job.fence, attempt=job.attempt)
        announce_job(world, stored, "job.returned", attempt=job.attempt, fence=job.fence)
        return stored

    def ends(self) -> tuple[LeaseEnd, ...]:
        return (LeaseEnd.RELEASED,)

    def verb(self) -> str:
        return "release"


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

    backoff: JobBackoff
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


def _lease(
    world: World,
    job: Job,
    worker: str,
    claimed_at: datetime,
    seconds: float,
    backoff: JobBackoff,
    *,
    repeatable: bool,
) -> JobLease:
    expires_at = world.now + timedelta(seconds=seconds)
    return JobLease(
        worker=worker,
        claimed_at=claimed_at,
        expires_at=expires_at,
        seconds=seconds,
        retry_at=_retry_at(job, expires_at, backoff, repeatable=repeatable),
        repeatable=repeatable,
    )


def _retry_at(job: Job, expires_at: datetime, backoff: JobBackoff, *, repeatable: bool) -> datetime | None:
    """When it may be tried again if the lease runs out; never for a gated call, which may have happened."""
    if job.is_call:
        return expires_at if repeatable else None
    return None if job.attempt >= job.max_attempts else expires_at + backoff.after(job)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _is_same(kept: Any, said: Any) -> bool:
    """Whether two values are the same JSON: in Python, `true` equals 1."""
    return kept == said and canonical(kept) == canonical(said)
