"""What time does to effects: an attempt that neither committed nor failed in time is marked, and told of.

Decisions judge time by themselves; the sweep only tidies up. Any number of servers may run it at once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.effects.applying import applying_reads, record_outlived
from interlock.effects.keeping import doubt
from interlock.effects.model import EFFECTS, Doubt, Effect, EffectState
from interlock.effects.recording import record_effect
from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Kind, Params, Pick, Reads, micros
from interlock.kernel.world import World


class OverdueEffects(Pick[Effect], frozen=True, kw_only=True):
    """Attempts whose time has run out, in every tenant, the longest overdue first."""

    @property
    def kind(self) -> Kind[Effect]:
        return EFFECTS

    @property
    def query(self) -> str:
        return "effects.overdue_effects"

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
