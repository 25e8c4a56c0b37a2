"""Durations as text (`30s`, `15m`, `4h`, `7d`) or as a number of seconds."""

from __future__ import annotations

import re

# The number of digits bounds every duration to about thirty years, so none overflows a date.
_WRITTEN = re.compile(r"^(?:[0-9]{1,9}s|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$(?!\n)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_seconds(given: str | int) -> int:
    """Read what a caller sent for a duration: text with a unit, or plain seconds."""
    return int(given) if isinstance(given, int) or given.isdigit() else seconds_of(given)


def seconds_of(text: str) -> int:
    """Read a duration in whole seconds; raise `ValueError`, saying what is accepted, for anything else."""
    if not _WRITTEN.search(text):
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 30s, 15m, 4h or 7d")
    return int(text[:-1]) * _UNITS[text[-1]]
