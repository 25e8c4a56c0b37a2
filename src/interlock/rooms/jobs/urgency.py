"""The order in which requests are put before people, and how those that a reviewer may decide are found.

Requests are ordered by when they end, as if what is critical ended 24 hours sooner, what is high 4 hours sooner, and
what a run waits for 1 hour sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from interlock.rooms.policy.action import Priority

HEAD_STARTS: Mapping[Priority, timedelta] = {
    Priority.CRITICAL: timedelta(hours=24),
    Priority.HIGH: timedelta(hours=4),
    Priority.NORMAL: timedelta(),
    Priority.LOW: timedelta(),
}
RUN_HEAD_START = timedelta(hours=1)

PATTERNS_MAX = 8

_MARK = "|"
_ESCAPE = "!"


def decide_by(ends_at: datetime | None, priority: Priority, run_id: str | None) -> datetime | None:
    """Where a request that ends then stands among those that wait for people; None if it does not wait."""
    if ends_at is None:
        return None
    return ends_at - HEAD_STARTS[priority] - (RUN_HEAD_START if run_id else timedelta())


def marked(groups: Iterable[str]) -> str:
    """Groups as one text, in which `patterns_of` finds each of them; empty for none."""
    each = "".join(f"{group}{_MARK}" for group in dict.fromkeys(groups))
    return f"{_MARK}{each}" if each else ""


def patterns_of(groups: Iterable[str] | None) -> tuple[str | None, ...]:
    """Patterns for LIKE that together find every text with one of these groups; with None, every text.

    They may find others, too: SQLite compares without regard to case, a mark may be part of a name, and a person in
    very many groups is shown everything. They spare a look at what is surely not theirs; the rule decides.
    """
    found = ["%"] if groups is None else [f"%{_MARK}{_escaped(group)}{_MARK}%" for group in groups]
    if len(found) > PATTERNS_MAX:
        found = ["%"]
    return (*found, *[None] * (PATTERNS_MAX - len(found)))


def _escaped(group: str) -> str:
    for sign in (_ESCAPE, "%", "_"):
        group = group.replace(sign, _ESCAPE + sign)
    return group
