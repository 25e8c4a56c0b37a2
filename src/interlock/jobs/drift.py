"""A job whose target moved before it ran: what is said of it, and kept for review."""

from __future__ import annotations

from interlock.conflicts.model import Affected, Competing, ConflictKind
from interlock.conflicts.rules import record_conflict
from interlock.jobs.model import Job
from interlock.kernel.world import World
from interlock.targets.model import Target


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
