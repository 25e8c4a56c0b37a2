"""What `interlock doctor` says of the store's clock, and of the epoch of its fences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from interlock.cli.examining import Finding

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

_TOLERANCE_SECONDS = 5.0


def examine_store(client: Interlock) -> Iterator[Finding]:
    """Does the store's clock agree with the machine's, and were fences raised?"""
    health = client.health()
    ahead = health.clock_ahead_seconds
    if abs(ahead) <= _TOLERANCE_SECONDS:
        yield Finding(level="ok", about="clock", text="the store's clock and the machine's agree")
    else:
        yield _wrong_clock(ahead)
    often = f", raised {health.fence_epoch} times after a restore or failover" if health.fence_epoch else ""
    yield Finding(
        level="ok",
        about="fences",
        text=f"epoch {health.fence_epoch}{often}",
        since=health.fences_raised_at,
    )


def _wrong_clock(ahead_seconds: float) -> Finding:
    way = "ahead of" if ahead_seconds > 0 else "behind"
    distance = timedelta(seconds=round(abs(ahead_seconds)))
    return Finding(
        level="wrong",
        about="clock",
        text=f"the store's clock is {distance} {way} the machine's, so permits and deadlines go wrong",
        next_step="set the machine's clock right; if it is right, SQLite: interlock doctor --repair-clock; "
        "PostgreSQL: set the clock of the database's machine right",
    )
