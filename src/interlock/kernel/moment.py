"""What time it is for the store, which alone says what is due: for loops that look before they ask."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.command import Command
from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.world import World


class TellTime(Command[datetime], frozen=True, kw_only=True):
    """Reads and changes nothing; the moment at which it was decided."""

    def reads(self) -> Reads:
        return NOTHING

    def decide(self, world: World) -> datetime:
        return world.now
