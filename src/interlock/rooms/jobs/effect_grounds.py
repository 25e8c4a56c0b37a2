"""What an effect depends on when it begins: its job, its lease, its target and its grant."""

from __future__ import annotations

import msgspec

from interlock.kernel.record import NOTHING, Key, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.rooms.audit.model import note
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import conflict_of_repeat, record_repeat, repeat_reads
from interlock.rooms.effects.model import (
    ActionIdReused,
    EffectAmbiguous,
    EffectTarget,
    GrantMissing,
    JobNotHeld,
    LeaseRef,
    PermitClaims,
    PermitMismatch,
    Superseded,
)
from interlock.rooms.grants.uses import record_refused
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs.model import JOBS, Job, JobState
from interlock.rooms.leases.model import (
    LEASES,
    NODES,
    TRANSITIONS,
    Lease,
    LeaseFenceStale,
    LeaseNotActionable,
    path_of,
)
from interlock.rooms.leases.rules import current_lease, going_on, record_stale_lease, stale_lease_reads
from interlock.rooms.targets.model import TARGETS

_AUDITED = (
    ActionIdReused,
    EffectAmbiguous,
    GrantMissing,
    JobNotHeld,
    LeaseNotActionable,
    PermitMismatch,
    Superseded,
)


class HeldLease(msgspec.Struct, frozen=True):
    """A lease that is current, and not in the way of an effect; `has_seen` what it was last in conflict over."""

    lease: Lease
    has_seen: bool

    def begin_applying(self, world: World) -> None:
        """Show that its holder is changing the resource."""
        lease = going_on(self.lease, world.now)
        state = TRANSITIONS[lease.state, "apply"]
        conflict_id = None if self.has_seen else lease.conflict_id
        world.put(LEASES, msgspec.structs.replace(lease, state=state, conflict_id=conflict_id))


def conditions_reads(
    tenant: str, job_id: str | None, lease: LeaseRef | None, target: EffectTarget | None
) -> Reads:
    """The reads of the first load; `target` is None if it is locked later."""
    reads = NOTHING
    if job_id is not None:
        reads |= Reads(own=(JOBS.key(tenant, job_id),))
    if lease is not None:
        reads |= Reads(own=(LEASES.key(tenant, lease.id),), see=(_node(tenant, lease),))
    if target is not None:
        reads |= Reads(own=(TARGETS.key(tenant, target.key),))
    return reads


def doubts_reads(
    world: World,
    caller: Caller,
    job_id: str | None,
    permit: PermitClaims | None,
    lease: LeaseRef | None,
    target: EffectTarget | None,
) -> Reads:
    """The groups that count a refusal, as far as one can be foreseen, and a target that is not locked yet."""
    reads = NOTHING
    job = world.get(JOBS, caller.tenant, job_id) if job_id else None
    if job is not None and not _is_held(world, caller, job, permit):
        reads |= repeat_reads(_stale_job(caller, job))
    if lease is not None:
        reads |= stale_lease_reads(
            world, caller, lease.id, lease.resource, lease.fence, session=lease.session
        )
    for named in (_target_of(job), target):
        if named is None:
            continue
        key = TARGETS.key(caller.tenant, named.key)
        if not world.owns(key):
            reads |= Reads(own=(key,)) | repeat_reads(_drifted(caller, named.key))
            continue
        found = world.get(TARGETS, caller.tenant, named.key)
        if found is not None and found.has_moved_from(named.version):
            reads |= repeat_reads(_drifted(caller, named.key))
    return reads


def check_job(world: World, caller: Caller, job_id: str, permit: PermitClaims | None) -> Job:
    """The job, if the caller or the bearer of the permit holds it now, exactly as it was permitted."""
    job = world.get(JOBS, caller.tenant, job_id)
    if job is None:
        raise NotFound("job", job_id)
    if not job.is_intact:
        raise PermitMismatch(job.id, "what is stored no longer matches its hash")
    if permit is not None and (permit.job_id, permit.job_hash) != (job.id, job.job_hash):
        raise PermitMismatch(job.id, "it was issued for another version of the job")
    if not _is_held(world, caller, job, permit):
        fence = permit.fence if permit else None
        raise JobNotHeld(job.id, job.state.value, fence=fence)
    return job


def check_lease(
    world: World, caller: Caller, ref: LeaseRef | None, target: EffectTarget | None
) -> HeldLease | None:
    """The caller's lease, if its fence and session are current and no other actor changed what it covers.

    After another actor changed the resource, only an effect that names a version of what the lease covers may go
    on; the check of targets compares that version. By naming it, the holder shows that they read the change.
    """
    if ref is None:
        return None
    lease = current_lease(world, caller, ref.id, ref.resource, ref.fence, session=ref.session)
    is_undercut = lease.conflict_id is not None and not (target and lease.covers(target.key))
    if is_undercut or (lease.state, "apply") not in TRANSITIONS:
        raise LeaseNotActionable(lease.id, lease.state.value, "apply an effect")
    found = world.get(TARGETS, caller.tenant, target.key) if target else None
    touches = found.touches if found else ()
    return HeldLease(lease, any(touch.conflict_id == lease.conflict_id for touch in touches))


def check_target(
    world: World, caller: Caller, job: Job | None, target: EffectTarget | None
) -> EffectTarget | None:
    """The target that the effect is for, if it is still at the version that the effect was prepared for.

    The target of the job is checked even if the caller names another target or a newer version: people approved the
    version that they saw. Only the job's executor may have changed it since.
    """
    bound = _target_of(job)
    if job is not None and bound is not None and not (target and _moved_it_alone(world, caller, job, bound)):
        _check_version(world, caller, bound)
    if target is not None:
        _check_version(world, caller, target)
    return target or bound


def _check_version(world: World, caller: Caller, wanted: EffectTarget) -> None:
    found = world.get(TARGETS, caller.tenant, wanted.key)
    if found is None or not found.has_moved_from(wanted.version):
        return
    told = found.conflict_of(wanted.version, naming=caller.principal)
    repeated = conflict_of_repeat(world, _drifted(caller, wanted.key))
    conflict_id = told or repeated or world.new_id("cnf")
    raise Superseded(wanted.key, wanted.version, found.current, conflict_id, is_known=told is not None)


def record_refused_begin(
    world: World, caller: Caller, action_id: str, lease: LeaseRef | None, refusal: Refusal
) -> None:
    """Audit a refusal that matters, and keep the collision behind it."""
    if isinstance(refusal, LeaseFenceStale) and lease is not None:
        record_stale_lease(world, caller, lease.id, lease.resource, refusal)
        return
    if not isinstance(refusal, _AUDITED):
        return
    note(
        world,
        caller,
        "effect_begin_refused",
        action_id,
        outcome=type(refusal).__name__,
        details={"detail": refusal.detail},
    )
    if isinstance(refusal, GrantMissing):
        subject = refusal.grant_id or refusal.task
        record_refused(
            world, caller, "grant_claim", subject, refusal.reason, execution_id=refusal.execution_id
        )
    if isinstance(refusal, Superseded) and not refusal.is_known:
        _record_drift(world, caller, action_id, refusal)
    if isinstance(refusal, JobNotHeld):
        _record_stale_job(world, caller, action_id, refusal)


def _record_drift(world: World, caller: Caller, action_id: str, refusal: Superseded) -> None:
    found = world.get(TARGETS, caller.tenant, refusal.target)
    sides = [
        Competing(actor=caller.principal, version=refusal.expected, at=world.now, what=f"began {action_id}")
    ]
    if found is not None:
        changed = Competing(
            actor=found.touched_by, version=found.current, at=found.touched_at, what="changed it"
        )
        sides.insert(0, changed)
    record_repeat(
        world,
        _drifted(caller, refusal.target),
        tuple(sides),
        Affected(effect=action_id),
        conflict_id=refusal.conflict_id,
    )


def _record_stale_job(world: World, caller: Caller, action_id: str, refusal: JobNotHeld) -> None:
    job = world.get(JOBS, caller.tenant, refusal.job_id)
    if job is None:
        return
    late = Competing(actor=caller.principal, at=world.now, what=f"began {action_id} without holding it")
    holder = job.lease.worker if job.lease and job.lease.ended is None else "interlock"
    stands = Competing(actor=holder, at=job.updated_at, what=job.state.value)
    sides, affected = (stands, late), Affected(job=job.id, effect=action_id)
    refusal.conflict_id = record_repeat(world, _stale_job(caller, job), sides, affected)


def _is_held(world: World, caller: Caller, job: Job, permit: PermitClaims | None) -> bool:
    lease = job.lease
    if job.state is not JobState.RUNNING or lease is None or lease.ended is not None:
        return False
    if world.now >= lease.expires_at:
        return False
    return permit.fence == job.fence if permit else lease.worker == caller.principal


def _moved_it_alone(world: World, caller: Caller, job: Job, bound: EffectTarget) -> bool:
    """Whether all changes of a job's target since then were made by its executor."""
    found = world.get(TARGETS, caller.tenant, bound.key)
    actors = {caller.principal, job.lease.worker if job.lease else caller.principal}
    for touch in found.touches if found else ():
        if touch.actor not in actors:
            return False
        if touch.previous_version in (bound.version, None):
            return True
    return False


def _target_of(job: Job | None) -> EffectTarget | None:
    named = job.action.target if job else None
    if named is None or named.version is None:
        return None
    return EffectTarget(key=named.key, version=named.version)


def _drifted(caller: Caller, target: str) -> Repeat:
    kind = ConflictKind.TARGET_CHANGED_AFTER_DRAFT
    return Repeat(tenant=caller.tenant, kind=kind, target=target, actor=caller.principal)


def _stale_job(caller: Caller, job: Job) -> Repeat:
    kind = ConflictKind.STALE_FENCE
    return Repeat(tenant=caller.tenant, kind=kind, target=job.conflict_target, actor=caller.principal)


def _node(tenant: str, lease: LeaseRef) -> Key:
    return NODES.key(tenant, path_of(lease.resource)[0])
