"""Durations as people write them: `30s`, `15m`, `4h`, `7d`."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

SECONDS_MAX = 3650 * 86_400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WRITTEN = re.compile(r"([0-9]{1,9})([smhd])")

# The type of a request field: checked as text on the way in, turned into a number by `seconds_of`.
DurationText = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{1,9}[smhd]$", description="A duration such as 30s, 15m, 4h or 7d.", examples=["15m"]
    ),
]


def seconds_of(text: str) -> int:
    """Read a duration in whole seconds; raise `ValueError`, saying what is accepted, for anything else."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 30s, 15m, 4h or 7d")
    seconds = int(written[1]) * _UNITS[written[2]]
    if seconds > SECONDS_MAX:
        raise ValueError(f"{text!r} is longer than {SECONDS_MAX // 86_400}d, the longest duration accepted")
    return seconds
