"""Saying what became of a gated call in doubt, and what that means for the call's job.

It did happen: the job is done, with the result. It did not: the job waits for its caller again. A person or a
reconciling service says so of any effect; the caller itself may say what its own `reconcile` function found out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.approvals.recording import announce_job, find_job, record_change
from interlock.approvals.refusals import NotActionable
from interlock.effects.keeping import find_effect
from interlock.effects.model import EFFECTS, NULL, Effect, EffectState, Outcome, id_of_call, job_of_call
from interlock.effects.refusals import EffectInProgress
from interlock.effects.resolving import ResolveEffect, resolve_effect
from interlock.identity.model import Caller, Role
from interlock.identity.rules import caller_reads, require
from interlock.jobs.leasing import is_lost, lose
from interlock.jobs.model import JOBS, TRANSITIONS, Job, JobState
from interlock.jobs.refusals import CallersOnly
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World


class ResolveDoubt(Command[Effect], frozen=True, kw_only=True):
    """Resolve any effect; if it is a gated call's, its job follows in the same decision."""

    resolution: ResolveEffect

    def reads(self) -> Reads:
        return self.resolution.reads() | self._job_reads()

    def more(self, world: World) -> Reads:
        return self.resolution.more(world)

    def decide(self, world: World) -> Effect:
        before = world.get(EFFECTS, self.resolution.caller.tenant, self.resolution.action_id)
        effect = self.resolution.decide(world)
        if before is not None and effect.version != before.version:
            _settle_job(world, self.resolution.caller, effect, self.resolution.result)
        return effect

    def _job_reads(self) -> Reads:
        job_id = job_of_call(self.resolution.action_id)
        return Reads(own=(JOBS.key(self.resolution.caller.tenant, job_id),)) if job_id else NOTHING


class ReconcileCall(Command[Job], frozen=True, kw_only=True):
    """Say what the remote side told the caller about its own call. Repeating it changes nothing."""

    caller: Caller
    job_id: str
    outcome: Outcome
    evidence: msgspec.Raw
    result: msgspec.Raw = NULL

    def reads(self) -> Reads:
        own = (
            JOBS.key(self.caller.tenant, self.job_id),
            EFFECTS.key(self.caller.tenant, id_of_call(self.job_id)),
        )
        return caller_reads(self.caller) | Reads(own=own)

    def decide(self, world: World) -> Job:
        require(world, self.caller, Role.SUBMIT)
        job = find_job(world, self.caller.tenant, self.job_id)
        if not job.is_call or job.submitted_by != self.caller.principal:
            raise CallersOnly(job.id, job.submitted_by)
        effect = find_effect(world, job.tenant, id_of_call(job.id))
        match effect.state_at(world.now):
            case EffectState.AMBIGUOUS:
                after = resolve_effect(world, effect, self.caller, self.outcome, self.evidence, self.result)
                return _settle_job(world, self.caller, after, self.result) or job
            case EffectState.IN_PROGRESS:
                left = (effect.expires_at - world.now).total_seconds()
                raise EffectInProgress(effect.id, effect.begun_by, effect.expires_at, left)
            case EffectState.COMMITTED | EffectState.FAILED:
                if effect.resolved is None or effect.resolved.outcome is not self.outcome:
                    raise NotActionable(job.id, job.state.value, "reconcile")
                return job


def _settle_job(world: World, by: Caller, effect: Effect, result: msgspec.Raw) -> Job | None:
    """Move the call's job on, as its effect was resolved; one that was cancelled meanwhile stays as it is."""
    job_id = job_of_call(effect.id)
    job = world.get(JOBS, effect.tenant, job_id) if job_id else None
    if job is None:
        return None
    if is_lost(job, world.now):
        job = lose(world, job)
    if job.state is not JobState.FAILED:
        return job
    happened = effect.state is EffectState.COMMITTED
    verb = "settle_done" if happened else "settle_not_done"
    fields: dict[str, Any] = {"result": msgspec.json.decode(result), "error": None} if happened else {}
    settled = msgspec.structs.replace(
        job,
        state=TRANSITIONS[job.state, verb],
        finished_at=world.now if happened else None,
        not_before=None if happened else world.now,
        updated_at=world.now,
        **fields,
    )
    stored = world.put(JOBS, settled)
    record_change(world, stored, by, verb, fence=job.fence)
    announce_job(world, stored, "job.succeeded" if happened else "job.retried", fence=job.fence)
    return stored
