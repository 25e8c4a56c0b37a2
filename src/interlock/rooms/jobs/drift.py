"""Target drift: whether the target still has the version that the job was written for."""

from __future__ import annotations

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import conflict_of_repeat, record_conflict, record_repeat, repeat_reads
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.model import Job
from interlock.rooms.jobs.refusals import AlreadyApproved, AlreadyRejected, TargetChanged
from interlock.rooms.policy.action import Action
from interlock.rooms.targets.model import TARGETS, Target


def target_reads(job: Job) -> Reads:
    """The target whose version the job is bound to, if it is bound to one."""
    target = job.action.target
    if target is None or target.version is None:
        return NOTHING
    return Reads(see=(TARGETS.key(job.tenant, target.key),))


def drift_reads(job: Job) -> Reads:
    """As `target_reads`, and the record of decisions on an old version."""
    target = target_reads(job)
    return target | repeat_reads(_on_old_version(job)) if target else NOTHING


def race_reads(job: Job) -> Reads:
    """The record of reviewers who decided against each other; needed once the request is decided."""
    decided = job.approval is not None and job.approval.decided_at is not None
    return repeat_reads(_race(job)) if decided else NOTHING


def moved_target(world: World, job: Job) -> Target | None:
    """The job's target, if it is no longer at the version that the job was drafted for."""
    target = job.action.target
    if target is None or target.version is None:
        return None
    found = world.get(TARGETS, job.tenant, target.key)
    return found if found is not None and found.has_moved_from(target.version) else None


def check_target(world: World, job: Job) -> None:
    """Raise `TargetChanged`, with the conflict that tells of it, if the target moved since the job was drafted."""
    moved = moved_target(world, job)
    target = job.action.target
    if moved is None or target is None or target.version is None:
        return
    known = moved.conflict_of(target.version, naming=job.submitted_by)
    known = known or conflict_of_repeat(world, _on_old_version(job))
    found = known or world.new_id("cnf")
    raise TargetChanged(job.id, job.state.value, target.key, target.version, moved.current, found)


def rebased(world: World, action: Action, tenant: str) -> Action:
    """The action, bound to its target's version as it is now: a new request is about the current version."""
    target = action.target
    if target is None or target.version is None:
        return action
    found = world.get(TARGETS, tenant, target.key)
    if found is None or not found.has_moved_from(target.version):
        return action
    return msgspec.structs.replace(action, target=msgspec.structs.replace(target, version=found.current))


def record_collision(world: World, by: Caller, job: Job, refusal: Refusal) -> None:
    """Keep the collision behind a refused decision for review, once per job."""
    if isinstance(refusal, TargetChanged):
        _record_drift(world, by, job, refusal)
    if isinstance(refusal, AlreadyApproved | AlreadyRejected):
        first = "approved it" if isinstance(refusal, AlreadyApproved) else "rejected it"
        second = "wanted to reject it" if isinstance(refusal, AlreadyApproved) else "wanted to approve it"
        sides = (
            Competing(actor=refusal.by, at=refusal.at, what=first),
            Competing(actor=by.principal, at=world.now, what=second),
        )
        record_repeat(world, _race(job), sides, Affected(job=job.id))


def _record_drift(world: World, by: Caller, job: Job, refusal: TargetChanged) -> None:
    moved = moved_target(world, job)
    if moved is None or moved.conflict_of(refusal.expected, naming=job.submitted_by) is not None:
        return
    drafted = Competing(
        actor=job.submitted_by, version=refusal.expected, at=job.submitted_at, what=f"waits with {job.id}"
    )
    changed = Competing(actor=moved.touched_by, version=moved.current, at=moved.touched_at, what="changed it")
    asked = Competing(actor=by.principal, version=refusal.expected, at=world.now, what="wanted to approve it")
    sides, affected = (drafted, changed, asked), Affected(job=job.id)
    record_repeat(world, _on_old_version(job), sides, affected, conflict_id=refusal.conflict_id)


def _on_old_version(job: Job) -> Repeat:
    kind = ConflictKind.APPROVAL_ON_OLD_VERSION
    return Repeat(tenant=job.tenant, kind=kind, target=job.conflict_target, actor=job.id)


def _race(job: Job) -> Repeat:
    kind = ConflictKind.APPROVE_REJECT_RACE
    return Repeat(tenant=job.tenant, kind=kind, target=job.conflict_target, actor=job.id)


def why_drifted(job: Job, target: Target) -> str:
    drafted_for = job.action.target.version if job.action.target else None
    return (
        f"{target.id} moved from {drafted_for} to {target.current} since it was drafted; "
        "look at the new version and draft it again"
    )


def record_drift(world: World, job: Job, target: Target) -> None:
    """Keep the collision, unless the touch that moved the target has done so already."""
    version = job.action.target.version if job.action.target else None
    if version is None or target.conflict_of(version, naming=job.submitted_by) is not None:
        return
    sides = (
        Competing(actor=job.submitted_by, version=version, at=job.submitted_at, what=f"waits with {job.id}"),
        Competing(actor=target.touched_by, version=target.current, at=target.touched_at, what="changed it"),
    )
    record_conflict(
        world,
        tenant=job.tenant,
        kind=ConflictKind.TARGET_CHANGED_AFTER_DRAFT,
        target=target.id,
        competing=sides,
        affected=Affected(job=job.id),
    )
