"""What an effect does to the lease that it runs under."""

from __future__ import annotations

import msgspec

from interlock.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.conflicts.rules import conflict_of_repeat, record_repeat, repeat_reads
from interlock.effects.model import Effect
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.leases.model import LEASES, TRANSITIONS, Lease, LeaseState

_HOW_IT_ENDED = {LeaseState.RELEASED: "released the lease", LeaseState.HANDED_OFF: "handed the lease on"}


def applying_reads(effect: Effect) -> Reads:
    """The lease that an effect holds in `applying`, and where it is recorded that the lease ran out."""
    if effect.lease is None:
        return NOTHING
    own = Reads(own=(LEASES.key(effect.tenant, effect.lease.id),))
    return own | repeat_reads(_outlived(effect, effect.lease.resource))


def end_applying(world: World, effect: Effect) -> None:
    """Its lease is no longer changing anything; if the lease ran out meanwhile, that is a conflict."""
    lease = _lease_of(world, effect)
    if lease is None:
        return
    # A conflict that the effect did not answer is still there for the owner's next renewal.
    state = TRANSITIONS.get((lease.state, "applied_in_conflict" if lease.conflict_id else "applied"))
    if lease.is_live_at(world.now) and state is not None:
        world.put(LEASES, msgspec.structs.replace(lease, state=state))
    record_outlived(world, effect)


def record_outlived(world: World, effect: Effect) -> None:
    """Record, once, that a lease ran out while the result of an effect under it was pending."""
    lease = _lease_of(world, effect)
    if lease is None or lease.is_live_at(world.now):
        return
    if conflict_of_repeat(world, _outlived(effect, lease.resource)) is not None:
        return
    left = _HOW_IT_ENDED.get(lease.state, "lost the lease")
    ended_at = lease.ended_at or lease.expires_at
    owner = Competing(actor=lease.owner, at=ended_at, what=f"{left} at fence {lease.fence}")
    actor = Competing(actor=effect.begun_by, at=effect.begun_at, what=f"{effect.id} was in progress")
    affected = Affected(effect=effect.id, lease=lease.id, job=effect.job_id)
    record_repeat(world, _outlived(effect, lease.resource), (owner, actor), affected)


def _lease_of(world: World, effect: Effect) -> Lease | None:
    return world.get(LEASES, effect.tenant, effect.lease.id) if effect.lease else None


def _outlived(effect: Effect, resource: str) -> Repeat:
    kind = ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING
    return Repeat(tenant=effect.tenant, kind=kind, target=resource, actor=effect.id)
