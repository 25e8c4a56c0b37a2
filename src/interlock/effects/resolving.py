"""Saying what became of an effect whose outcome is unknown."""

from __future__ import annotations

import msgspec

from interlock.effects.applying import applying_reads, end_applying
from interlock.effects.keeping import find_effect, kept_result
from interlock.effects.model import EFFECTS, NULL, TRANSITIONS, Effect, EffectState, Outcome, Resolved
from interlock.effects.recording import record_effect
from interlock.effects.refusals import EffectNotActionable
from interlock.identity.model import Caller, Principal, PrincipalKind, Role
from interlock.identity.refusals import Forbidden, PeopleOnly
from interlock.identity.rules import caller_reads, require
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World


class ResolveEffect(Command[Effect], frozen=True, kw_only=True):
    """Say what became of an effect whose outcome is unknown, with evidence.

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
    """Settle an ambiguous effect by what somebody found out."""
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
    """The principal behind the caller, if it may say what became of an effect."""
    by = require(world, caller)
    roles = set(by.roles)
    if by.kind is PrincipalKind.PERSON and roles & {Role.REVIEW, Role.OPERATE, Role.ADMIN}:
        return by
    if by.kind is PrincipalKind.SERVICE and roles & {Role.OPERATE, Role.ADMIN}:
        return by
    if by.kind in (PrincipalKind.PERSON, PrincipalKind.SERVICE):
        raise Forbidden(by.id, (Role.OPERATE,))
    raise PeopleOnly(by.id, by.kind.value)
