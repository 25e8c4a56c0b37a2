"""A command: a small frozen value that names the records it reads and decides what changes."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World

T_co = TypeVar("T_co", covariant=True)


class Command(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """One decision. Pure: the same world and the same fields always give the same answer."""

    def reads(self) -> Reads:
        """The records this command needs, known before anything is loaded."""
        raise NotImplementedError

    def more(self, world: World) -> Reads:
        """What it needs besides, now that the first load is there. Asked once."""
        return NOTHING

    def decide(self, world: World) -> T_co:
        """Stage the changes and return the result, or raise a `Refusal`."""
        raise NotImplementedError

    def refused(self, world: World, refusal: Refusal) -> None:
        """Stage what a refusal leaves behind (an audit entry, a conflict). Nothing else of it stays."""
