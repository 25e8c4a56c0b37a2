"""Values as words for people: times, sizes, and text that others wrote, made safe to show.

A payload or a reason may be written by an agent under somebody's influence. Escape sequences and
invisible characters are spelled out, so that nothing on a reviewer's screen can pose as Interlock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from interlock.codec.visible import spelled_out

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def safe(text: str) -> str:
    """One line in which every character can be seen; the others are written as `\\u…`."""
    return spelled_out(text)


def safe_lines(text: str) -> list[str]:
    """Several lines, each safe."""
    return [safe(line.expandtabs(4)) for line in text.splitlines()] or [""]


def pretty(value: object) -> list[str]:
    """JSON for reading: indented, in its own alphabet, and still JSON when copied."""
    # Not splitlines(): it also breaks where a text inside has U+2028, and what follows would pose as a line of ours.
    return [safe(line) for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n")]


def one_line(value: object) -> str:
    """JSON on one line, safe."""
    return safe(json.dumps(value, ensure_ascii=False))


def lasting(seconds: float) -> str:
    """A duration in its largest unit, or two where that says more: `45s`, `12m`, `3h 5m`, `2d`."""
    left = max(0, round(seconds))
    for position, (size, unit) in enumerate(_UNITS):
        if left < size:
            continue
        whole, rest = divmod(left, size)
        if whole < 24 and size > 60 and rest >= _UNITS[position + 1][0]:
            smaller, name = _UNITS[position + 1]
            return f"{whole}{unit} {rest // smaller}{name}"
        return f"{whole}{unit}"
    return "0s"


def moment(text: str | None) -> datetime | None:
    """A moment as the service spells it."""
    return None if text is None else datetime.fromisoformat(text)


def when(moment: datetime | None, now: datetime | None = None) -> str:
    """A moment seen from now: `12m ago`, `in 3h 5m`; a dash for none."""
    if moment is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{lasting(seconds)} ago" if seconds > 0 else f"in {lasting(-seconds)}"


def exactly(moment: datetime | None) -> str:
    """A moment as the clock on the wall of the record says it, in UTC."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 vote`, `2 votes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(words: Sequence[str], none: str = "-") -> str:
    """Words in a row, safe."""
    return ", ".join(safe(word) for word in words) if words else none


def without_password(url: str) -> str:
    """An address that may be shown to anybody."""
    from urllib.parse import urlsplit

    password = urlsplit(url).password if "@" in url else None
    return url.replace(f":{password}@", ":…@") if password else url
