"""Counts of how starts of runs ended, stored for a day, so that every server can report what all of them saw.

A 503 means that the store could not be asked, so each server counts in memory and stores its counts later, in one
record for each few seconds with something to count.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.world import Command, World
from interlock.rooms.admission.model import TALLIES, Tally

KEPT = timedelta(hours=25)


class KeepTally(Command[Tally], frozen=True, kw_only=True):
    """Hand in what one server counted within a few seconds, instead of what it has handed in for them before."""

    tally: Tally

    def reads(self) -> Reads:
        return Reads(own=(TALLIES.key(self.tally.tenant, self.tally.id),))

    def decide(self, world: World) -> Tally:
        before = world.get(TALLIES, self.tally.tenant, self.tally.id)
        if before is None:
            return world.add(TALLIES, self.tally)
        return world.put(TALLIES, msgspec.structs.replace(before, rows=self.tally.rows))


class OldTallies(Pick[Tally], frozen=True, kw_only=True):
    """Tallies that no window reaches back to, in every tenant, the oldest first."""

    kind = TALLIES
    query = "admission.old_tallies"

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - KEPT)}

    def matches(self, record: Tally, now: datetime) -> bool:
        return record.at < now - KEPT

    def sort_key(self, record: Tally) -> Any:
        return (record.at, record.tenant, record.id)


class ForgetTallies(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` tallies that are too old to be asked for; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OldTallies(limit=self.most),))

    def decide(self, world: World) -> int:
        found = world.pick(OldTallies(limit=self.most))
        for tally in found:
            world.delete(TALLIES, tally)
        return len(found)
