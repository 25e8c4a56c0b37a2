"""What every change of an effect leaves behind: an audit entry and an event."""

from __future__ import annotations

from typing import Any

from interlock.audit.rules import Note, note
from interlock.effects.model import Effect
from interlock.identity.model import Caller
from interlock.kernel.world import World
from interlock.outbox.rules import announce

_EVENTS = {
    "begin": "effect.begun",
    "commit": "effect.committed",
    "fail": "effect.failed",
    "doubt": "effect.ambiguous",
    "resolve": "effect.resolved",
}


def record_effect(world: World, effect: Effect, by: Caller | None, verb: str, **details: Any) -> None:
    """Audit and announce what was done to an effect; `by` is None if time did it."""
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
