"""The audit entries and events that an effect writes besides its record."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World
from interlock.rooms.audit.model import Note, note
from interlock.rooms.conflicts.model import Affected, Competing, ConflictKind, Repeat
from interlock.rooms.conflicts.rules import conflict_of_repeat, record_repeat, repeat_reads
from interlock.rooms.effects.model import (
    EFFECTS,
    INLINE_BYTES_MAX,
    NULL,
    RESULTS,
    TRANSITIONS,
    Doubt,
    Effect,
    EffectResult,
    StoredResult,
)
from interlock.rooms.events.model import announce
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.leases.model import LEASES, Lease, LeaseState
from interlock.rooms.leases.model import TRANSITIONS as LEASE_TRANSITIONS


def find_effect(world: World, tenant: str, action_id: str) -> Effect:
    effect = world.get(EFFECTS, tenant, action_id)
    if effect is None:
        raise NotFound("effect", action_id)
    return effect


def kept_result(world: World, effect: Effect, result: msgspec.Raw) -> dict[str, Any]:
    """The fields that keep a result: in the record, or beside it with a pointer if it is large."""
    size = len(result)
    if size <= INLINE_BYTES_MAX:
        return {"result": result, "stored_result": None}
    digest = f"sha256:{hashlib.sha256(bytes(result)).hexdigest()}"
    stored = EffectResult(
        tenant=effect.tenant,
        id=world.new_id("res"),
        action_id=effect.id,
        digest=digest,
        size=size,
        result=result,
    )
    world.add(RESULTS, stored)
    return {"result": NULL, "stored_result": StoredResult(id=stored.id, digest=digest, size=size)}


def doubt(world: World, effect: Effect, why: Doubt) -> Effect:
    """Make an effect ambiguous. Its lease, if it has one, stays `applying`: something may be half done."""
    state = TRANSITIONS[effect.state, "doubt"]
    return world.put(EFFECTS, msgspec.structs.replace(effect, state=state, doubt=why))


_EVENTS = {
    "begin": "effect.begun",
    "commit": "effect.committed",
    "fail": "effect.failed",
    "doubt": "effect.ambiguous",
    "resolve": "effect.resolved",
}


def record_effect(world: World, effect: Effect, by: Caller | None, verb: str, **details: Any) -> None:
    """Audit and announce a change of an effect; `by` is None if time made it."""
    facts: dict[str, Any] = {"state": effect.state.value, "fence": effect.fence, **details}
    note(
        world,
        Note(
            tenant=effect.tenant,
            actor=by.principal if by else "interlock",
            action=f"effect_{verb}",
            subject=effect.id,
            subject_version=effect.version,
            hash=effect.request_hash,
            request_id=by.request_id if by else None,
            details=facts,
        ),
    )
    facts |= {"job_id": effect.job_id, "begun_by": effect.begun_by, "downstream_key": effect.downstream_key}
    announce(world, effect.tenant, _EVENTS[verb], effect.id, facts)


def record_late(world: World, effect: Effect, by: Caller, verb: str, fence: int) -> None:
    """Audit that an attempt came too late to settle its effect."""
    note(
        world,
        Note(
            tenant=effect.tenant,
            actor=by.principal,
            action=f"effect_{verb}_refused",
            subject=effect.id,
            outcome="EffectFenceStale",
            request_id=by.request_id,
            details={"fence": fence, "current_fence": effect.fence, "state": effect.state.value},
        ),
    )


_HOW_IT_ENDED = {LeaseState.RELEASED: "released the lease", LeaseState.HANDED_OFF: "handed the lease on"}


def applying_reads(effect: Effect) -> Reads:
    """The lease that an effect keeps in `applying`, and the record for the case that it ran out."""
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
    state = LEASE_TRANSITIONS.get((lease.state, "applied_in_conflict" if lease.conflict_id else "applied"))
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
    owner = Competing(actor=lease.owner, at=ended_at, what=left)
    actor = Competing(actor=effect.begun_by, at=effect.begun_at, what=f"{effect.id} was in progress")
    affected = Affected(effect=effect.id, lease=lease.id, job=effect.job_id)
    record_repeat(world, _outlived(effect, lease.resource), (owner, actor), affected)


def _lease_of(world: World, effect: Effect) -> Lease | None:
    return world.get(LEASES, effect.tenant, effect.lease.id) if effect.lease else None


def _outlived(effect: Effect, resource: str) -> Repeat:
    kind = ConflictKind.LEASE_EXPIRED_WITH_RESULT_PENDING
    return Repeat(tenant=effect.tenant, kind=kind, target=resource, actor=effect.id)
