"""Rates as people write them: `5/s`, `10/m`, `600/h`, `1000/d`."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

import msgspec

COUNT_MAX = 1_000_000
PERIOD_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Period: TypeAlias = Literal["s", "m", "h", "d"]
_WRITTEN = re.compile(r"([0-9]{1,7})/([smhd])", re.ASCII)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """So many in each period."""

    count: int
    per: Period

    @property
    def period_seconds(self) -> int:
        """The length of the period."""
        return PERIOD_SECONDS[self.per]

    def __str__(self) -> str:
        """The rate as it is written."""
        return f"{self.count}/{self.per}"


def parse_rate(text: str) -> Rate:
    """Read a rate; raise `ValueError`, saying what is accepted, for anything else."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate; write a count and a period, such as 5/s, 10/m, 600/h or 1000/d"
        )
    count = int(match.group(1))
    if not 1 <= count <= COUNT_MAX:
        raise ValueError(f"{text!r} is out of range; a rate counts from 1 to {COUNT_MAX}")
    return Rate(count=count, per=cast("Period", match.group(2)))


def finest(rate: Rate) -> Rate:
    """The same rate over the shortest period that keeps its count whole: `600/h` is `10/m`."""
    for per, seconds in PERIOD_SECONDS.items():
        count, rest = divmod(rate.count * seconds, rate.period_seconds)
        if rest == 0:
            return Rate(count=count, per=cast("Period", per))
    return rate
