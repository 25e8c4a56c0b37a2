"""Counts of how starts of runs ended, handed in by every server, so that each can report what all of them saw.

A 503 means that the store could not be asked, so each server counts in memory and stores its counts later, in tallies
of a few seconds each. After a minute they are rolled up into sheets (traffic.py), which are kept for a month.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.command import Command
from interlock.kernel.record import Kind, Params, Pick, Reads, micros
from interlock.kernel.world import World
from interlock.rooms.admission.model import TALLIES, Tally

# How long a tally that was rolled up is kept: a server that was not told of its COMMIT may hand it in again.
KEPT = timedelta(hours=1)


class KeepTally(Command[Tally], frozen=True, kw_only=True):
    """Hand in what one server counted within a few seconds, instead of what it has handed in for them before."""

    tally: Tally

    def reads(self) -> Reads:
        return Reads(own=(TALLIES.key(self.tally.tenant, self.tally.id),))

    def decide(self, world: World) -> Tally:
        before = world.get(TALLIES, self.tally.tenant, self.tally.id)
        if before is None:
            return world.add(TALLIES, self.tally)
        if before.rows == self.tally.rows:
            return before
        return world.put(TALLIES, msgspec.structs.replace(before, rows=self.tally.rows, rolled_at=None))


class OldTallies(Pick[Tally], frozen=True, kw_only=True):
    """Tallies that were rolled up long ago, in every tenant, the oldest first."""

    @property
    def kind(self) -> Kind[Tally]:
        return TALLIES

    @property
    def query(self) -> str:
        return "admission.old_tallies"

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - KEPT)}

    def matches(self, record: Tally, now: datetime) -> bool:
        return record.rolled_at is not None and record.rolled_at < now - KEPT

    def sort_key(self, record: Tally) -> Any:
        return (record.rolled_at, record.tenant, record.id)


class ForgetTallies(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` tallies that were rolled up long ago; returns how many there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OldTallies(limit=self.most),))

    def decide(self, world: World) -> int:
        found = world.pick(OldTallies(limit=self.most))
        for tally in found:
            world.delete(TALLIES, tally)
        return len(found)
