"""What `interlock doctor` says of the store itself: its writes, its room, its clock and the epoch of its fences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from interlock.cli.connection import typed
from interlock.cli.examining import Finding
from interlock.cli.wording import safe
from interlock.sdk.outcomes import Forbidden, NotFound

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

_MIB = 1024 * 1024
ROOM_BYTES_SCARCE = 256 * _MIB
ROOM_BYTES_MIN = 16 * _MIB
_TOLERANCE_SECONDS = 5.0


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A store that has taken a write, or why it has not."""

    place: str
    free_bytes: int | None = None
    trouble: str | None = None


def examine_store(client: Interlock) -> Iterator[Finding]:
    """Does the store take writes, is its clock right, and were fences raised?"""
    yield from _examine_writes(client)
    yield from _examine_clock(client)


def _examine_writes(client: Interlock) -> Iterator[Finding]:
    """Does it take a write, and for how long will it?"""
    try:
        checked = typed(client.call("GET", "store", "check"), Checked)
    except (Forbidden, NotFound):
        # A server of an earlier version, or a caller who may not.
        yield Finding(
            level="note",
            about="store",
            text="whether it takes writes was not examined",
            next_step="pass the key of somebody with the role operate or admin",
        )
    else:
        yield room_left(checked)


def room_left(checked: Checked) -> Finding:
    """Whether it takes writes, and how much room is left where it is."""
    if checked.trouble is not None:
        return Finding(
            level="wrong",
            about="store",
            text=f"it takes no writes, so nothing can be decided: {safe(checked.trouble)}",
        )
    taken = f"the store at {safe(checked.place)} takes writes"
    room = checked.free_bytes
    if room is None:
        return Finding(level="ok", about="store", text=taken)
    if room >= ROOM_BYTES_SCARCE:
        return Finding(level="ok", about="store", text=f"{taken}, and has room")
    return Finding(
        level="wrong" if room < ROOM_BYTES_MIN else "note",
        about="store",
        text=f"{taken}, and its disk is nearly full: {room / _MIB:.0f} MiB left",
        next_step="free some space there, or move the store; when the disk is full nothing can be decided",
    )


def _examine_clock(client: Interlock) -> Iterator[Finding]:
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
