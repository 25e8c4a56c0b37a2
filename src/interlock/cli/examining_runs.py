"""What `interlock doctor` looks at in admission: whether the gate counts right, and whether lost slots come back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from interlock.cli.connection import listing, typed
from interlock.cli.examining import EXAMINED_MAX, Finding
from interlock.cli.wording import counted
from interlock.sdk.models import Limits, Run

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

RECLAIMED_LATE = timedelta(minutes=1)


def examine_runs(client: Interlock) -> Iterator[Finding]:
    """Every finding about runs."""
    limits = client.limits()
    page = listing(client, "workflow-runs", limit=EXAMINED_MAX, cursor=None, query={"state": "lost"})
    yield from miscounted_slots(limits)
    yield from lost_slots([typed(item, Run) for item in page["items"]], datetime.now(UTC))


def miscounted_slots(limits: Limits) -> Iterator[Finding]:
    """Does the gate count as many runs as there are? Both were read at one moment."""
    if limits.active != limits.running:
        yield Finding(
            level="wrong",
            about="runs",
            text=f"the gate counts {counted(limits.active, 'active run')}, but there are {limits.running}",
            next_step="report it with `interlock audit --json`; ending runs and starting new ones goes on",
        )
    else:
        waiting = f", {counted(limits.waiting, 'start')} waiting" if limits.waiting else ""
        yield Finding(level="ok", about="runs", text=f"{counted(limits.active, 'run')} active{waiting}")


def lost_slots(lost: list[Run], now: datetime) -> Iterator[Finding]:
    """Whose holder is gone, and no sweep has noticed? By the clock it is lost; only a sweep notes its end."""
    unnoticed = [run for run in lost if run.ended_at is None and run.slot_expires_at]
    late = [run for run in unnoticed if (run.slot_expires_at or now) < now - RECLAIMED_LATE]
    if late:
        yield Finding(
            level="wrong",
            about="runs",
            text=f"{counted(len(late), 'slot')} ran out and nobody took it back",
            since=min(run.slot_expires_at for run in late if run.slot_expires_at),
            next_step="keep one `interlock serve` running; it takes them back within seconds",
        )
