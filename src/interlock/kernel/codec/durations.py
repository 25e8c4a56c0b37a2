"""Durations as text (`30s`, `15m`, `4h`, `7d`) or as a number of seconds."""

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

Duration = (
    DurationText | Annotated[int, msgspec.Meta(ge=0, le=999_999_999, description="A number of seconds.")]
)
DurationInQuery = Annotated[
    str,
    msgspec.Meta(pattern=_PATTERN.replace("s|", "s?|", 1), description="A duration such as 15m, or seconds."),
]

# How long something is kept without being renewed. Fractions are as good as whole seconds.
TtlSeconds = Annotated[int, msgspec.Meta(ge=1, le=86_400)] | Annotated[float, msgspec.Meta(gt=0, le=86_400)]


def duration_seconds(given: str | int) -> int:
    """Read what a caller sent for a duration: text with a unit, or plain seconds."""
    return int(given) if isinstance(given, int) or given.isdigit() else seconds_of(given)


def seconds_of(text: str) -> int:
    """Read a duration in whole seconds; raise `ValueError`, saying what is accepted, for anything else."""
    if not _WRITTEN.search(text):
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 30s, 15m, 4h or 7d")
    return int(text[:-1]) * _UNITS[text[-1]]
