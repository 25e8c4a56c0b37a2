"""What is kept of an effect: finding it, its result however large, and that its outcome is unknown."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from interlock.effects.model import (
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
from interlock.identity.refusals import NotFound
from interlock.kernel.world import World


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
