"""What a store reports with every load: the epoch of its fences, and how its ids are dated.

Fences of a resource only grow. A store restored from an older copy would count again from the copy's number. So a
restore raises the epoch: from then on every fence is greater than `fence_floor`, which is beyond any fence handed out
before (docs/decisions/0040). A store that was never restored has floor 0, and its fences are 1, 2, 3.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

# By how much a floor grows at least, whatever the clock says: more than one epoch hands out for a resource.
_STEP = 2**32
# A clock beyond this (the year 2219) is wrong, and a fence made from it would leave too few numbers.
_CLOCK_MAX = 2**53 - 2**50


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """Read in the batch's own transaction, so that a change holds for all of a batch or for nothing of it."""

    epoch: int = 0
    fence_floor: int = 0
    raised_at: datetime | None = None
    raised_why: str = ""
    ids_ahead_micros: int = 0
    clock_repairs: int = 0
    clock_repaired_at: datetime | None = None

    def next_fence(self, *previous: int) -> int:
        """Greater than these, and than everything that was handed out before the epoch began."""
        return max(self.fence_floor, *previous) + 1


FRESH = StoreState()


def clock_fence(now_micros: int) -> int:
    """The clock as a fence, for a resource whose earlier fences are not stored; 0 if the clock is certainly wrong."""
    return now_micros if now_micros < _CLOCK_MAX else 0


def raised_floor(floor: int, now_micros: int) -> int:
    """Where fences begin after a raise.

    No store hands out a million fences of one resource in a second, so those of an epoch stay behind the clock. The
    time of the raise in microseconds is ahead of all of them, also of epochs that the copy does not know.
    """
    return max(floor + _STEP, clock_fence(now_micros))


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did: how far ahead the clock was, since which moment of its own, and how many records it moved."""

    ahead: timedelta
    since: datetime
    records: int
