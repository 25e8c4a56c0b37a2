"""Advances a run: see how its jobs ended, start the steps that are ready, end the run when none is left.

Any server may advance any run at any time: progress is read from the records, never remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import GATES, RUNS, TENANT_SCOPE, Run, RunState, workflow_scope
from interlock.rooms.admission.slots import end_run, lose_run
from interlock.rooms.audit.model import Author, note
from interlock.rooms.events.model import EventType
from interlock.rooms.identity.model import PRINCIPALS, Principal
from interlock.rooms.jobs.model import JOBS, Approval, Job, JobState, Requirement, Verdict
from interlock.rooms.jobs.placement import Proposal, place
from interlock.rooms.jobs.records import announce_job, record_change
from interlock.rooms.policy.action import Action, Priority
from interlock.rooms.policy.model import HEAD_ID, HEADS
from interlock.rooms.policy.refusals import PolicyThrottled, PolicyUnavailable, because
from interlock.rooms.policy.rules import bucket_keys, policy_in_force
from interlock.rooms.workflows.model import (
    PROGRESS,
    SLOT,
    TRANSITIONS,
    Progress,
    Step,
    StepKind,
    StepRun,
    StepState,
    approval_topic,
)
from interlock.rooms.workflows.rules import as_left, ended, job_reads, ready_steps, stopped


class AdvanceRun(Command[Run | None], frozen=True, kw_only=True):
    """One look at a run. `started_by` comes from the caller that read the run; it is checked."""

    tenant: str
    run_id: str
    workflow: str
    started_by: str

    def reads(self) -> Reads:
        own = (
            RUNS.key(self.tenant, self.run_id),
            PROGRESS.key(self.tenant, self.run_id),
            GATES.key(self.tenant, TENANT_SCOPE),
            GATES.key(self.tenant, workflow_scope(self.workflow)),
        )
        see = (HEADS.key(self.tenant, HEAD_ID), PRINCIPALS.key(self.tenant, self.started_by))
        return Reads(own=own, see=see)

    def more(self, world: World) -> Reads:
        """The jobs of its steps, and the records that placing the ready ones needs."""
        found = self._under_way(world)
        if found is None:
            return NOTHING
        run, progress = found
        reads = job_reads(progress)
        actor = world.get(PRINCIPALS, self.tenant, self.started_by)
        for step in progress.definition:
            if step.kind is StepKind.WORKER and actor is not None:
                # The results of the earlier steps are not loaded yet; no bucket's name depends on them.
                bare = _proposal(run, step, actor, progress, world=None)
                reads |= Reads(own=bucket_keys(world, self.tenant, bare.action, actor, bare.priority))
        return reads

    def decide(self, world: World) -> Run | None:
        found = self._under_way(world)
        if found is None:
            return None
        run, progress = found
        progress = as_left(world, progress)
        if run.holds_at(world.now) and not _has_failed(progress):
            progress = self._start_ready(world, run, progress)
        return self._settle(world, run, progress)

    def _under_way(self, world: World) -> tuple[Run, Progress] | None:
        run = world.get(RUNS, self.tenant, self.run_id)
        progress = world.get(PROGRESS, self.tenant, self.run_id)
        if run is None or progress is None or progress.is_over or run.started_by != self.started_by:
            return None
        return run, progress

    # What is ready.

    def _start_ready(self, world: World, run: Run, progress: Progress) -> Progress:
        actor = world.get(PRINCIPALS, self.tenant, self.started_by)
        steps = {step.id: step for step in progress.steps}
        for definition in ready_steps(progress.definition, progress.steps):
            if actor is None:
                steps[definition.id] = ended(world, steps[definition.id], "fail", "its starter is gone")
                continue
            placed = self._job(world, run, progress, definition, actor)
            step = steps[definition.id]
            if isinstance(placed, str):
                steps[step.id] = msgspec.structs.replace(step, why=placed)
            else:
                steps[step.id] = _begun(world, step, placed)
        return msgspec.structs.replace(progress, steps=tuple(steps[step.id] for step in progress.steps))

    def _job(self, world: World, run: Run, progress: Progress, step: Step, actor: Principal) -> Job | str:
        """The step's job, placed by the policy like any other; or why it must wait."""
        proposal = _proposal(run, step, actor, progress, world=world)
        job_hash = proposal.action.hash(self.tenant)
        if step.kind is StepKind.APPROVAL:
            return self._ask(world, run, step, actor, proposal.action, job_hash)
        try:
            placed = place(world, proposal, job_hash=job_hash, ends_at=None)
        except PolicyThrottled as full:
            # Without the time: that changes at every look.
            return f"rule {full.rule!r} allows no more for now"
        except PolicyUnavailable as failed:
            return failed.detail
        job = _new_job(world, run, step, actor, proposal.action, job_hash, placed.state, placed.verdict)
        job = msgspec.structs.replace(job, policy_snapshot=placed.policy_snapshot, approval=placed.approval)
        return _submitted(world, job)

    def _ask(
        self, world: World, run: Run, step: Step, actor: Principal, action: Action, job_hash: str
    ) -> Job:
        snapshot = policy_in_force(world, self.tenant).snapshot
        requirement = Requirement(
            quorum=step.quorum, groups=step.groups, expires_seconds=step.timeout_seconds, binding="workflow"
        )
        approval = Approval(
            requirement=requirement,
            rule=f"workflow:{run.workflow}/{step.id}",
            policy_snapshot=snapshot,
            job_hash=job_hash,
            requested_at=world.now,
            expires_at=world.now + timedelta(seconds=step.timeout_seconds),
        )
        verdict = Verdict(
            decision="require_human", rule=approval.rule, reason="the workflow asks people here"
        )
        job = _new_job(world, run, step, actor, action, job_hash, JobState.APPROVAL, verdict)
        return _submitted(world, msgspec.structs.replace(job, policy_snapshot=snapshot, approval=approval))

    # What is left.

    def _settle(self, world: World, run: Run, progress: Progress) -> Run:
        if not run.holds_at(world.now):
            return self._stop(world, run, progress)
        if _has_failed(progress):
            return self._end(world, run, progress, RunState.FAILED)
        if all(step.state is StepState.SUCCEEDED for step in progress.steps):
            return self._end(world, run, progress, RunState.SUCCEEDED)
        if progress != world.get(PROGRESS, self.tenant, self.run_id):
            world.put(PROGRESS, progress)
        if run.slot_expires_at - world.now < SLOT / 2:
            return world.put(RUNS, msgspec.structs.replace(run, slot_expires_at=world.now + SLOT))
        return run

    def _stop(self, world: World, run: Run, progress: Progress) -> Run:
        """Stop the open steps of a run that was cancelled or lost. The slot of a lost run is gone, so it stays lost."""
        world.put(PROGRESS, stopped(world, progress))
        return lose_run(world, run) if run.state is RunState.RUNNING else run

    def _end(self, world: World, run: Run, progress: Progress, state: RunState) -> Run:
        over = world.put(PROGRESS, stopped(world, progress))
        failed = (step for step in over.steps if step.state is StepState.FAILED)
        why = next((f"{step.id}: {step.why}" for step in failed), "")
        note(
            world,
            Author(tenant=run.tenant),
            f"run_{state.value}",
            run.id,
            details={"workflow": run.workflow, "why": why},
        )
        return end_run(world, run, state, error=why)


def _begun(world: World, step: StepRun, job: Job) -> StepRun:
    begun = msgspec.structs.replace(step, job_id=job.id, started_at=world.now, why="")
    if job.state is JobState.DENIED:
        why = because(job.verdict.rule, job.verdict.reason)
        return ended(world, begun, "fail", f"the policy denies it ({why})")
    return msgspec.structs.replace(begun, state=TRANSITIONS[step.state, "start"])


def _has_failed(progress: Progress) -> bool:
    return any(step.state in (StepState.FAILED, StepState.CANCELLED) for step in progress.steps)


def _proposal(run: Run, step: Step, actor: Principal, progress: Progress, *, world: World | None) -> Proposal:
    """What a step proposes: the run's input and the results of the steps before it."""
    results: dict[str, object] = {}
    for before in step.depends_on:
        done = progress.step(before)
        job = world.get(JOBS, run.tenant, done.job_id) if world and done and done.job_id else None
        results[before] = job.result if job else None
    payload = {
        "run_id": run.id,
        "workflow": run.workflow,
        "step": step.id,
        "input": msgspec.json.decode(run.input),
        "results": results,
    }
    topic = step.topic or approval_topic(run.workflow, step.id)
    action = Action(topic=topic, env=step.env, payload=msgspec.Raw(canonical(payload)))  # pyright: ignore[reportArgumentType]
    return Proposal(tenant=run.tenant, action=action, actor=actor, priority=Priority.NORMAL)


def _new_job(
    world: World,
    run: Run,
    step: Step,
    actor: Principal,
    action: Action,
    job_hash: str,
    state: JobState,
    verdict: Verdict,
) -> Job:
    return Job(
        tenant=run.tenant,
        id=world.new_id("job"),
        action=action,
        state=state,
        job_hash=job_hash,
        policy_snapshot=None,
        verdict=verdict,
        submitted_by=actor.id,
        submitter_people=tuple(sorted(actor.people)),
        submitted_at=world.now,
        updated_at=world.now,
        max_attempts=step.max_attempts,
        run_id=run.id,
        is_question=step.kind is StepKind.APPROVAL,
    )


_ANNOUNCED: Mapping[JobState, EventType] = {
    JobState.PENDING: "job.released",
    JobState.APPROVAL: "approval.requested",
}


def _submitted(world: World, job: Job) -> Job:
    stored = world.add(JOBS, job)
    record_change(world, stored, None, "submit", run_id=stored.run_id)
    announce_job(world, stored, _ANNOUNCED.get(stored.state, "job.denied"))
    return stored
