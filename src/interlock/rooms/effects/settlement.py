"""How effects end: committed, failed, ambiguous, or resolved by a person who knows.

Each end writes audit entries, events and conflicts in the same decision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.kernel.record import NOTHING, Params, Pick, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
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
    EffectFenceStale,
    EffectNotActionable,
    EffectOfCall,
    EffectResult,
    EffectState,
    Outcome,
    Resolved,
    StoredResult,
    job_of_call,
)
from interlock.rooms.events.model import EventType, announce
from interlock.rooms.identity.model import Caller, Principal, PrincipalKind, Role
from interlock.rooms.identity.refusals import Forbidden, NotFound, PeopleOnly
from interlock.rooms.identity.rules import caller_reads, require
from interlock.rooms.leases.model import LEASES, Lease, LeaseState
from interlock.rooms.leases.model import TRANSITIONS as LEASE_TRANSITIONS

if TYPE_CHECKING:
    from interlock.rooms.conflicts.model import Repeat

BEGINNERS = (Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN)


class _SettleEffect(Command[Effect], frozen=True, kw_only=True):
    """What the process that began an attempt reports about it, under its fence."""

    caller: Caller
    action_id: str
    fence: int

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(EFFECTS.key(self.caller.tenant, self.action_id),))

    def more(self, world: World) -> Reads:
        effect = world.get(EFFECTS, self.caller.tenant, self.action_id)
        if effect is None:
            return NOTHING
        return self._stale_reads(effect) | _applying_reads(effect)

    def decide(self, world: World) -> Effect:
        require(world, self.caller, *BEGINNERS)
        effect = find_effect(world, self.caller.tenant, self.action_id)
        if (job_id := job_of_call(effect.id)) is not None:
            raise EffectOfCall(effect.id, self._verb(), job_id)
        verdict = self._verdict(effect)
        if isinstance(verdict, Effect):
            return verdict
        if verdict is not None:
            raise verdict
        return self._settle(world, effect)

    def refused(self, world: World, refusal: Refusal) -> None:
        """The caller went on after the effect was settled without it: that is a collision."""
        if not isinstance(refusal, EffectFenceStale):
            return
        from interlock.rooms.conflicts.model import Affected, Competing
        from interlock.rooms.conflicts.rules import record_repeat

        effect = find_effect(world, self.caller.tenant, self.action_id)
        said = f"says '{self._verb()}', too late"
        late = Competing(actor=self.caller.principal, at=world.now, what=said)
        stands = Competing(
            actor=effect.resolved.by if effect.resolved else effect.begun_by,
            at=effect.resolved.at if effect.resolved else effect.ended_at or effect.begun_at,
            what=effect.state.value,
        )
        affected = Affected(effect=effect.id, job=effect.job_id)
        refusal.conflict_id = record_repeat(world, self._stale(), (stands, late), affected)
        record_late(world, effect, self.caller, self._verb(), self.fence)
        if refusal.contradicts:
            doubted = doubt(world, effect, Doubt.CONTRADICTED)
            record_effect(
                world, doubted, self.caller, "doubt", why="its own attempt contradicts what was said"
            )

    def _verdict(self, effect: Effect) -> Effect | Refusal | None:
        """The effect if the same was reported before, a refusal if it is too late, else None."""
        raise NotImplementedError

    def _settle(self, world: World, effect: Effect) -> Effect:
        raise NotImplementedError

    def _verb(self) -> str:
        raise NotImplementedError

    def _is_open(self, effect: Effect) -> bool:
        """Whether this attempt may still report its outcome: in time, or late but before any other report."""
        undecided = effect.state is EffectState.AMBIGUOUS and effect.doubt is Doubt.TIME
        return self._is_own(effect) and (effect.state is EffectState.IN_PROGRESS or undecided)

    def _is_own(self, effect: Effect) -> bool:
        return effect.fence == self.fence and effect.begun_by == self.caller.principal

    def _refusal(self, effect: Effect) -> Refusal:
        contradicts = self._is_own(effect) and effect.state is EffectState.FAILED
        return EffectFenceStale(
            effect.id,
            fence=self.fence,
            state=effect.state.value,
            contradicts=contradicts,
        )

    def _stale_reads(self, effect: Effect) -> Reads:
        if self._verdict(effect) is None:
            return NOTHING
        from interlock.rooms.conflicts.rules import repeat_reads

        return repeat_reads(self._stale())

    def _stale(self) -> Repeat:
        from interlock.rooms.conflicts.model import ConflictKind, Repeat

        target = f"effect:{self.action_id}"
        kind = ConflictKind.STALE_FENCE
        return Repeat(tenant=self.caller.tenant, kind=kind, target=target, actor=self.caller.principal)


class CommitEffect(_SettleEffect, frozen=True, kw_only=True):
    """It happened, with this result. Repeating it changes nothing: the first result stays."""

    result: msgspec.Raw = NULL

    def _verdict(self, effect: Effect) -> Effect | Refusal | None:
        if self._is_open(effect):
            return None
        said_before = self._is_own(effect) and effect.state is EffectState.COMMITTED
        return effect if said_before else self._refusal(effect)

    def _settle(self, world: World, effect: Effect) -> Effect:
        late = effect.state_at(world.now) is EffectState.AMBIGUOUS
        stored = world.put(
            EFFECTS,
            msgspec.structs.replace(
                effect,
                state=TRANSITIONS[effect.state, "commit"],
                ended_at=world.now,
                doubt=None,
                **kept_result(world, effect, self.result),
            ),
        )
        _end_applying(world, effect)
        record_effect(world, stored, self.caller, "commit", **({"late": True} if late else {}))
        return stored

    def _verb(self) -> str:
        return "commit"


class FailEffect(_SettleEffect, frozen=True, kw_only=True):
    """It certainly did not happen (`safe_to_retry`), or its outcome is unknown: then it is ambiguous."""

    error: msgspec.Raw = NULL
    safe_to_retry: bool

    def _verdict(self, effect: Effect) -> Effect | Refusal | None:
        if self._is_open(effect):
            return None
        if self._is_own(effect) and effect.state is EffectState.COMMITTED:
            return EffectNotActionable(effect.id, effect.state.value, "fail")
        before = EffectState.FAILED if self.safe_to_retry else EffectState.AMBIGUOUS
        return effect if self._is_own(effect) and effect.state is before else self._refusal(effect)

    def _settle(self, world: World, effect: Effect) -> Effect:
        if not self.safe_to_retry:
            stored = doubt(world, msgspec.structs.replace(effect, error=self.error), Doubt.REPORTED)
            record_effect(world, stored, self.caller, "doubt", why="its outcome could not be told")
            return stored
        failed = msgspec.structs.replace(
            effect,
            state=TRANSITIONS[effect.state, "fail"],
            error=self.error,
            ended_at=world.now,
            doubt=None,
        )
        stored = world.put(EFFECTS, failed)
        _end_applying(world, effect)
        record_effect(world, stored, self.caller, "fail")
        return stored

    def _verb(self) -> str:
        return "fail"


def _applying_reads(effect: Effect) -> Reads:
    if effect.lease is None:
        return NOTHING
    from interlock.rooms.effects.settlement import applying_reads

    return applying_reads(effect)


def _end_applying(world: World, effect: Effect) -> None:
    if effect.lease is not None:
        from interlock.rooms.effects.settlement import end_applying

        end_applying(world, effect)


class ResolveEffect(Command[Effect], frozen=True, kw_only=True):
    """Report the outcome of an effect whose outcome is unknown, with evidence.

    A person who reviews or operates may, and a service that operates: a reconciler. An agent may not clear
    its own doubt.
    """

    caller: Caller
    action_id: str
    outcome: Outcome
    evidence: msgspec.Raw
    result: msgspec.Raw = NULL

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(EFFECTS.key(self.caller.tenant, self.action_id),))

    def more(self, world: World) -> Reads:
        effect = world.get(EFFECTS, self.caller.tenant, self.action_id)
        return applying_reads(effect) if effect else NOTHING

    def decide(self, world: World) -> Effect:
        require_resolver(world, self.caller)
        effect = find_effect(world, self.caller.tenant, self.action_id)
        if effect.state_at(world.now) is EffectState.AMBIGUOUS:
            return resolve_effect(world, effect, self.caller, self.outcome, self.evidence, self.result)
        if effect.resolved is not None and effect.resolved.outcome is self.outcome:
            return effect
        said = effect.resolved
        raise EffectNotActionable(
            effect.id,
            effect.state.value,
            "resolve",
            by=said.by if said else None,
            at=said.at if said else None,
        )


def resolve_effect(
    world: World,
    effect: Effect,
    caller: Caller,
    outcome: Outcome,
    evidence: msgspec.Raw,
    result: msgspec.Raw = NULL,
) -> Effect:
    """Settle an ambiguous effect by what was found out."""
    happened = outcome is Outcome.COMMITTED
    settled = msgspec.structs.replace(
        effect,
        state=TRANSITIONS[EffectState.AMBIGUOUS, f"resolve_{outcome.value}"],
        ended_at=world.now,
        doubt=None,
        resolved=Resolved(outcome=outcome, by=caller.principal, at=world.now, evidence=evidence),
        **(kept_result(world, effect, result) if happened else {}),
    )
    stored = world.put(EFFECTS, settled)
    end_applying(world, effect)
    record_effect(world, stored, caller, "resolve", outcome=outcome.value)
    return stored


def require_resolver(world: World, caller: Caller) -> Principal:
    """The principal behind the caller, if it may report the outcome of an effect."""
    by = require(world, caller)
    roles = set(by.roles)
    if by.kind is PrincipalKind.PERSON and roles & {Role.REVIEW, Role.OPERATE, Role.ADMIN}:
        return by
    if by.kind is PrincipalKind.SERVICE and roles & {Role.OPERATE, Role.ADMIN}:
        return by
    if by.kind in (PrincipalKind.PERSON, PrincipalKind.SERVICE):
        raise Forbidden(by.id, (Role.OPERATE,))
    raise PeopleOnly(by.id, by.kind.value)


class OverdueEffects(Pick[Effect], frozen=True, kw_only=True):
    """Attempts whose time has run out, in every tenant, the longest overdue first."""

    kind = EFFECTS
    query = "effects.overdue_effects"

    def params(self, now: datetime) -> Params:
        return {"now": micros(now)}

    def matches(self, record: Effect, now: datetime) -> bool:
        return record.state is EffectState.IN_PROGRESS and now >= record.expires_at

    def sort_key(self, record: Effect) -> Any:
        return (record.expires_at, record.tenant, record.id)


class SweepOverdueEffects(Command[int], frozen=True, kw_only=True):
    """Mark up to `most` attempts as ambiguous; returns how many."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OverdueEffects(limit=self.most),))

    def more(self, world: World) -> Reads:
        reads = NOTHING
        for effect in world.pick(OverdueEffects(limit=self.most)):
            reads |= applying_reads(effect)
        return reads

    def decide(self, world: World) -> int:
        overdue = world.pick(OverdueEffects(limit=self.most))
        for effect in overdue:
            marked = doubt(world, effect, Doubt.TIME)
            record_outlived(world, marked)
            record_effect(world, marked, None, "doubt", why="it neither committed nor failed in time")
        return len(overdue)


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


_EVENTS: Mapping[str, EventType] = {
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
        by or Author(tenant=effect.tenant),
        f"effect_{verb}",
        effect.id,
        subject_version=effect.version,
        subject_hash=effect.request_hash,
        details=facts,
    )
    facts |= {"job_id": effect.job_id, "begun_by": effect.begun_by, "downstream_key": effect.downstream_key}
    announce(world, effect.tenant, _EVENTS[verb], effect.id, facts)


def record_late(world: World, effect: Effect, by: Caller, verb: str, fence: int) -> None:
    """Audit that an attempt came too late to settle its effect."""
    note(
        world,
        by,
        f"effect_{verb}_refused",
        effect.id,
        outcome="EffectFenceStale",
        details={"fence": fence, "current_fence": effect.fence, "state": effect.state.value},
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
