"""Audit entries of what was done to the store itself: fences raised, the clock set back.

A store raises its epoch below all rules, sometimes by itself. So this command compares what the store says of itself
with what has an entry, and writes what is missing; whoever runs it first does.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.audit.model import STORE_NOTES, StoreNote
from interlock.audit.rules import Note, note
from interlock.kernel.command import Command
from interlock.kernel.record import Reads
from interlock.kernel.store_state import StoreState
from interlock.kernel.world import World

_ID = "state"


class NoteStoreState(Command[StoreState], frozen=True, kw_only=True):
    """What the store says of itself, audited up to now. `actor` is who did it, if somebody did."""

    tenant: str
    actor: str = "system"
    ahead_seconds: float | None = None
    records: int | None = None

    def reads(self) -> Reads:
        return Reads(own=(STORE_NOTES.key(self.tenant, _ID),))

    def decide(self, world: World) -> StoreState:
        state = world.state
        noted = world.get(STORE_NOTES, self.tenant, _ID) or StoreNote(tenant=self.tenant, id=_ID)
        if (noted.epoch, noted.clock_repairs) == (state.epoch, state.clock_repairs):
            return state
        if noted.epoch != state.epoch:
            facts = {"epoch": state.epoch, "fence_floor": state.fence_floor, "why": state.raised_why}
            self._note(world, "fences_raise", facts)
        if noted.clock_repairs != state.clock_repairs:
            facts = {
                "repairs": state.clock_repairs,
                "ahead_seconds": self.ahead_seconds,
                "records": self.records,
            }
            self._note(world, "clock_repair", facts)
        after = StoreNote(tenant=self.tenant, id=_ID, epoch=state.epoch, clock_repairs=state.clock_repairs)
        world.put(STORE_NOTES, after)
        return state

    def _note(self, world: World, action: str, facts: Mapping[str, object]) -> None:
        given = {name: value for name, value in facts.items() if value is not None}
        noted = Note(tenant=self.tenant, actor=self.actor, action=action, subject="store", details=given)
        note(world, noted)
