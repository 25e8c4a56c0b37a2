"""The effect of a gated call, changed together with the call's job.

A gated call is a job that only its submitter runs. Claiming the job begins an effect in the same decision, and ending
the job ends the effect. If the caller fails in between, the record says that the call may have done something, and
it is not run again until an operator reports what happened. A call that its caller declared repeatable has no effect:
it may run again.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.rooms.effects.model import (
    EFFECTS,
    NULL,
    TRANSITIONS,
    Doubt,
    Effect,
    EffectAmbiguous,
    EffectInProgress,
    EffectState,
    EffectTarget,
    downstream_key,
    id_of_call,
)
from interlock.rooms.effects.settlement import doubt, kept_result, record_effect
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.model import JOBS, Job, JobState
from interlock.rooms.jobs.model import TRANSITIONS as JOB_TRANSITIONS
from interlock.rooms.jobs.records import announce_job, record_change


class Done(msgspec.Struct, frozen=True):
    """The function returned this."""

    result: Any = None


class NotRun(msgspec.Struct, frozen=True):
    """The function certainly did nothing."""

    error: Any = None


class InDoubt(msgspec.Struct, frozen=True):
    """The function raised, so it is unknown what it did."""

    error: Any = None


CallEnd: TypeAlias = Done | NotRun | InDoubt


def call_reads(job: Job | None) -> Reads:
    """The effect of a gated call, owned."""
    return Reads(own=(EFFECTS.key(job.tenant, id_of_call(job.id)),)) if job and job.is_call else NOTHING


def check_not_begun(world: World, job: Job) -> None:
    """Raise while a worker carries the call out, or while its outcome is unknown."""
    lease = job.lease
    if lease and job.lease_until and world.now < lease.expires_at:
        left = (lease.expires_at - world.now).total_seconds()
        raise EffectInProgress(job.id, lease.worker, lease.expires_at, left)
    check_no_doubt(world, job)


def check_no_doubt(world: World, job: Job) -> None:
    """Raise if the outcome of the call is unknown."""
    effect = _effect_of(world, job)
    if effect is not None and effect.state_at(world.now) is EffectState.AMBIGUOUS:
        raise EffectAmbiguous(
            effect.id,
            effect.begun_by,
            effect.begun_at,
            effect.fence,
            effect.downstream_key,
            job_id=job.id,
        )


def begin_call(world: World, job: Job, by: Caller) -> None:
    """Begin the effect of a call that was just handed out; of a repeatable one there is none."""
    lease = job.lease
    if not job.is_call or lease is None or lease.repeatable:
        return
    before = _effect_of(world, job)
    target = job.action.target
    effect = Effect(
        tenant=job.tenant,
        id=id_of_call(job.id),
        uid=before.uid if before else world.new_id("eff"),
        request_hash=job.job_hash,
        state=TRANSITIONS[before.state, "begin"] if before else EffectState.IN_PROGRESS,
        fence=job.fence,
        downstream_key=downstream_key(job.tenant, id_of_call(job.id)),
        ttl_seconds=lease.seconds,
        first_begun_at=before.first_begun_at if before else world.now,
        begun_at=world.now,
        begun_by=by.principal,
        expires_at=lease.expires_at,
        error=before.error if before else NULL,
        job_id=job.id,
        job_hash=job.job_hash,
        target=EffectTarget(key=target.key, version=target.version) if target and target.version else None,
    )
    record_effect(world, world.put(EFFECTS, effect), by, "begin")


def renew_call(world: World, job: Job) -> None:
    """Give the effect as long as the job's lease was just given."""
    effect = _open_effect(world, job)
    if effect is not None and job.lease is not None:
        world.put(EFFECTS, msgspec.structs.replace(effect, expires_at=job.lease.expires_at))


def end_call(world: World, job: Job, by: Caller, end: CallEnd) -> None:
    """Record in the effect how the call ended."""
    effect = _open_effect(world, job)
    if effect is None:
        return
    match end:
        case Done(result):
            kept = kept_result(world, effect, msgspec.Raw(canonical(result)))
            committed = msgspec.structs.replace(
                effect, state=TRANSITIONS[effect.state, "commit"], ended_at=world.now, doubt=None, **kept
            )
            record_effect(world, world.put(EFFECTS, committed), by, "commit")
        case NotRun(error):
            failed = msgspec.structs.replace(
                effect,
                state=TRANSITIONS[effect.state, "fail"],
                error=msgspec.Raw(canonical(error)),
                ended_at=world.now,
                doubt=None,
            )
            record_effect(world, world.put(EFFECTS, failed), by, "fail")
        case InDoubt(error):
            said = msgspec.structs.replace(effect, error=msgspec.Raw(canonical(error)))
            doubted = doubt(world, said, Doubt.REPORTED)
            record_effect(world, doubted, by, "doubt", why="the function raised")
        case _:
            assert_never(end)


def doubt_lost_call(world: World, job: Job) -> None:
    """Mark the effect of a call whose lease ran out; the sweep would do the same, later."""
    effect = _open_effect(world, job)
    if effect is not None and effect.state_at(world.now) is EffectState.AMBIGUOUS:
        marked = doubt(world, effect, Doubt.TIME)
        record_effect(world, marked, None, "doubt", why="it neither committed nor failed in time")


def doubt_settled_call(world: World, by: Caller, job_id: str, fence: int) -> None:
    """Stop a further attempt if the last worker reports success after an operator said that it did not happen."""
    job = world.get(JOBS, by.tenant, job_id)
    effect = _effect_of(world, job) if job else None
    if job is None or effect is None or job.state is not JobState.PENDING:
        return
    is_last = effect.fence == fence and effect.begun_by == by.principal
    if not is_last or effect.state is not EffectState.FAILED or effect.resolved is None:
        return
    doubted = doubt(world, effect, Doubt.CONTRADICTED)
    record_effect(world, doubted, by, "doubt", why="its own attempt contradicts what was said")
    held_back = msgspec.structs.replace(
        job, state=JOB_TRANSITIONS[job.state, "doubt"], finished_at=world.now, updated_at=world.now
    )
    stored = world.put(JOBS, held_back)
    record_change(world, stored, by, "doubt", fence=fence)
    announce_job(world, stored, "job.failed", attempt=job.attempt, fence=fence)


def _effect_of(world: World, job: Job) -> Effect | None:
    return world.get(EFFECTS, job.tenant, id_of_call(job.id)) if job.is_call else None


def _open_effect(world: World, job: Job) -> Effect | None:
    """The effect of the attempt that runs, if it has one."""
    effect = _effect_of(world, job)
    return effect if effect and effect.state is EffectState.IN_PROGRESS else None
