"""Durations as people write them: `30s`, `15m`, `4h`, `7d`."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

# The number of digits bounds every duration to about thirty years, so none overflows a date.
_PATTERN = r"^(?:[0-9]{1,9}s|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$(?!\n)"
_WRITTEN = re.compile(_PATTERN)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

# The type of a request field: text that `seconds_of` is certain to read.
DurationText = Annotated[
    str,
    msgspec.Meta(pattern=_PATTERN, description="A duration such as 30s, 15m, 4h or 7d.", examples=["15m"]),
]


def seconds_of(text: str) -> int:
    """Read a duration in whole seconds; raise `ValueError`, saying what is accepted, for anything else."""
    if not _WRITTEN.search(text):
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 30s, 15m, 4h or 7d")
    return int(text[:-1]) * _UNITS[text[-1]]
