"""Advancing a run: see how its jobs ended, start what has become ready, end the run when nothing is left.

Any server may advance any run, and as often as it likes: what is done is seen in the records, never remembered.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from interlock.admission.ending import end_run
from interlock.admission.model import GATES, RUNS, TENANT_SCOPE, Run, RunState, workflow_scope
from interlock.approvals.model import Approval, ApprovalState, Requirement
from interlock.approvals.placing import Proposal, place, placing_reads
from interlock.approvals.recording import announce_job, record_change
from interlock.audit.rules import Note, note
from interlock.codec.canonical import canonical
from interlock.identity.model import PRINCIPALS, Principal
from interlock.jobs.model import JOBS, Action, Job, JobState, Priority, Verdict
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.policy.model import HEAD_ID, HEADS
from interlock.policy.refusals import PolicyThrottled, PolicyUnavailable
from interlock.policy.rules import policy_in_force
from interlock.workflows.model import PROGRESS, Progress, Step, StepKind, StepRun, StepState, approval_topic
from interlock.workflows.ordering import ready_steps
from interlock.workflows.rules import changed

_SLOT = timedelta(days=1)
_OVER = {JobState.FAILED, JobState.DENIED, JobState.CANCELLED, JobState.EXPIRED}


class AdvanceRun(Command[Run | None], frozen=True, kw_only=True):
    """One look at a run. `started_by` is named by whoever read the run; it is checked."""

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
        """The jobs of its steps, and what placing those that are ready may draw on."""
        found = self._under_way(world)
        if found is None:
            return NOTHING
        run, progress = found
        jobs = tuple(JOBS.key(self.tenant, step.job_id) for step in progress.steps if step.job_id)
        reads = Reads(own=jobs)
        actor = world.get(PRINCIPALS, self.tenant, self.started_by)
        if actor is not None:
            for step in progress.definition:
                if step.kind is StepKind.WORKER:
                    reads |= placing_reads(world, _proposal(run, step, actor, progress, world=None))
        return reads

    def decide(self, world: World) -> Run | None:
        found = self._under_way(world)
        if found is None:
            return None
        run, progress = found
        steps = [self._seen(world, step, progress) for step in progress.steps]
        progress = msgspec.structs.replace(progress, steps=tuple(steps))
        if not any(step.state in (StepState.FAILED, StepState.CANCELLED) for step in steps):
            progress = self._start_ready(world, run, progress)
        return self._settle(world, run, progress)

    def _under_way(self, world: World) -> tuple[Run, Progress] | None:
        run = world.get(RUNS, self.tenant, self.run_id)
        progress = world.get(PROGRESS, self.tenant, self.run_id)
        if run is None or progress is None or progress.is_over or run.started_by != self.started_by:
            return None
        return run, progress

    # How jobs ended.

    def _seen(self, world: World, step: StepRun, progress: Progress) -> StepRun:
        """A step as its job has left it."""
        job = world.get(JOBS, self.tenant, step.job_id) if step.job_id else None
        if step.state is not StepState.RUNNING or job is None:
            return step
        definition = next(each for each in progress.definition if each.id == step.id)
        if definition.kind is StepKind.APPROVAL and _is_agreed(job):
            self._close_question(world, job)
            return changed(step, state=StepState.SUCCEEDED, ended_at=world.now)
        if job.state is JobState.SUCCEEDED:
            return changed(step, state=StepState.SUCCEEDED, ended_at=world.now)
        if job.state in _OVER:
            return changed(
                step, state=StepState.FAILED, ended_at=world.now, why=f"the job is {job.state.value}"
            )
        if step.started_at and world.now >= step.started_at + timedelta(seconds=definition.timeout_seconds):
            self._cancel(world, job)
            return changed(step, state=StepState.FAILED, ended_at=world.now, why="it took too long")
        return step

    def _close_question(self, world: World, job: Job) -> None:
        done = msgspec.structs.replace(
            job, state=JobState.SUCCEEDED, updated_at=world.now, finished_at=world.now
        )
        announce_job(world, world.put(JOBS, done), "job.succeeded")

    def _cancel(self, world: World, job: Job) -> None:
        approval = job.approval
        if approval and approval.state is ApprovalState.PENDING:
            approval = msgspec.structs.replace(approval, state=ApprovalState.WITHDRAWN)
        gone = msgspec.structs.replace(
            job, state=JobState.CANCELLED, approval=approval, updated_at=world.now, finished_at=world.now
        )
        stored = world.put(JOBS, gone)
        record_change(world, stored, None, "cancel", reason="its workflow step ended")
        announce_job(world, stored, "job.cancelled")

    # What is ready.

    def _start_ready(self, world: World, run: Run, progress: Progress) -> Progress:
        actor = world.get(PRINCIPALS, self.tenant, self.started_by)
        steps = {step.id: step for step in progress.steps}
        for definition in ready_steps(progress.definition, progress.steps):
            if actor is None:
                steps[definition.id] = changed(
                    steps[definition.id], state=StepState.FAILED, why="its starter is gone"
                )
                continue
            job = self._job(world, run, progress, definition, actor)
            if job is not None:
                failed = job.state is JobState.DENIED
                steps[definition.id] = changed(
                    steps[definition.id],
                    state=StepState.FAILED if failed else StepState.RUNNING,
                    job_id=job.id,
                    started_at=world.now,
                    ended_at=world.now if failed else None,
                    why="the policy denies it" if failed else "",
                )
        return msgspec.structs.replace(progress, steps=tuple(steps[step.id] for step in progress.steps))

    def _job(self, world: World, run: Run, progress: Progress, step: Step, actor: Principal) -> Job | None:
        """The step's job, placed by the policy like any other; None if it is throttled and must wait."""
        proposal = _proposal(run, step, actor, progress, world=world)
        job_hash = proposal.action.hash(self.tenant)
        if step.kind is StepKind.APPROVAL:
            return self._ask(world, run, step, actor, proposal.action, job_hash)
        try:
            placed = place(world, proposal, job_hash=job_hash, ends_at=None)
        except (PolicyThrottled, PolicyUnavailable):
            return None
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
        states = [step.state for step in progress.steps]
        if run.state is not RunState.RUNNING or StepState.FAILED in states or StepState.CANCELLED in states:
            return self._end(world, run, progress, RunState.FAILED)
        if all(state is StepState.SUCCEEDED for state in states):
            return self._end(world, run, progress, RunState.SUCCEEDED)
        if progress != world.get(PROGRESS, self.tenant, self.run_id):
            world.put(PROGRESS, progress)
        if run.slot_expires_at - world.now < _SLOT / 2:
            return world.put(RUNS, msgspec.structs.replace(run, slot_expires_at=world.now + _SLOT))
        return run

    def _end(self, world: World, run: Run, progress: Progress, state: RunState) -> Run:
        steps = tuple(self._stopped(world, step) for step in progress.steps)
        world.put(PROGRESS, msgspec.structs.replace(progress, steps=steps, is_over=True))
        why = next((f"{step.id}: {step.why}" for step in steps if step.why), "")
        if run.state is not RunState.RUNNING:
            # It was cancelled or lost, and whoever saw to that has said so.
            return run
        ended = Note(
            tenant=run.tenant,
            actor="interlock",
            action=f"run_{state.value}",
            subject=run.id,
            details={"workflow": run.workflow, "why": why},
        )
        note(world, ended)
        return end_run(world, run, state, error=why)

    def _stopped(self, world: World, step: StepRun) -> StepRun:
        if step.state is StepState.WAITING:
            return changed(step, state=StepState.SKIPPED, ended_at=world.now)
        job = (
            world.get(JOBS, self.tenant, step.job_id)
            if step.job_id and step.state is StepState.RUNNING
            else None
        )
        if job is None:
            return step
        if job.state in (JobState.APPROVAL, JobState.PENDING):
            self._cancel(world, job)
        return changed(step, state=StepState.CANCELLED, ended_at=world.now)


def _is_agreed(job: Job) -> bool:
    """Whether people said yes to the question: that nobody is asked any more is not enough."""
    approval = job.approval
    return job.state is JobState.PENDING and approval is not None and approval.state is ApprovalState.APPROVED


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


def _submitted(world: World, job: Job) -> Job:
    stored = world.add(JOBS, job)
    record_change(world, stored, None, "submit", run_id=stored.run_id)
    events = {JobState.PENDING: "job.released", JobState.APPROVAL: "approval.requested"}
    announce_job(world, stored, events.get(stored.state, "job.denied"))
    return stored
