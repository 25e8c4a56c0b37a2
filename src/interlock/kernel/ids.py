"""Ids that sort by creation time: a short prefix and a UUIDv7.

Ids made in a batch carry the batch's time (`Ids.at`), so they sort in the order of decisions: always on SQLite, where
each batch has a later time than the one before; on PostgreSQL as far as the database's clock allows. Ids made outside
a batch carry this machine's time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

import uuid_utils

from interlock.kernel.record import NOTHING, Reads, from_micros
from interlock.kernel.world import Command, World

# A UUIDv7: milliseconds, the version; then microseconds; the variant, the number in the batch, and chance.
_VERSION, _VARIANT = 7 << 76, 2 << 62
_NUMBER_SHIFT, _NUMBER_MAX = 44, 2**18 - 1
_CHANCE_BYTES, _CHANCE_MASK = 6, 2**44 - 1


class Ids:
    """Makes fresh ids such as `job_0192f…`."""

    def __init__(self) -> None:
        self._micros = -1
        self._number = 0

    def __call__(self, prefix: str) -> str:
        """By this machine's clock; later ids of one process sort after earlier ones."""
        return f"{prefix}_{uuid_utils.uuid7().hex}"

    def at(self, micros: int) -> Callable[[str], str]:
        """Ids of one moment, which sort in the order in which they are made and between those of other moments."""

        def make(prefix: str) -> str:
            self._number = self._number + 1 if self._micros == micros else 0
            self._micros = micros
            if self._number > _NUMBER_MAX:
                raise OverflowError(f"one batch made more than {_NUMBER_MAX} ids")
            return f"{prefix}_{_dated(micros, self._number):032x}"

        return make


new_id = Ids()


def made_at(made: str) -> datetime:
    """When an id was made, by the clock that it carries."""
    milliseconds = int(made.rpartition("_")[2], 16) >> 80
    return from_micros(milliseconds * 1000)


def _dated(micros: int, number: int) -> int:
    milliseconds, rest = divmod(micros, 1000)
    chance = int.from_bytes(os.urandom(_CHANCE_BYTES), "big") & _CHANCE_MASK
    return milliseconds << 80 | _VERSION | rest << 64 | _VARIANT | number << _NUMBER_SHIFT | chance


class TellTime(Command[datetime], frozen=True, kw_only=True):
    """Reads and changes nothing; returns the time of its batch."""

    def reads(self) -> Reads:
        return NOTHING

    def decide(self, world: World) -> datetime:
        return world.now
