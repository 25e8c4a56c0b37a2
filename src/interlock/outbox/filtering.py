"""Which types of event a reader wants: exact names or a leading part, `approval.approved` or `approval.*`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from interlock.outbox.cloud import PREFIX

TYPES_MAX = 50

_PATTERN = re.compile(r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?")


class BadTypes(ValueError):
    """A pattern that could match nothing; the message says what one looks like."""


def read_types(patterns: Iterable[str]) -> tuple[str, ...]:
    """Patterns as they are kept: without the prefix of CloudEvents' types, checked, each once."""
    wanted = tuple(dict.fromkeys(pattern.strip().removeprefix(PREFIX) for pattern in patterns))
    if len(wanted) > TYPES_MAX:
        raise BadTypes(f"holds {len(wanted)} types; {TYPES_MAX} at most, or a pattern such as approval.*")
    for pattern in wanted:
        if not _PATTERN.fullmatch(pattern):
            raise BadTypes(f"{pattern!r} is no type; write approval.approved, approval.* or *")
    return () if "*" in wanted else wanted


def wants(types: tuple[str, ...], event_type: str) -> bool:
    """Whether a reader of `types` wants this one; no types means every type."""
    return not types or any(_matches(pattern, event_type) for pattern in types)


def _matches(pattern: str, event_type: str) -> bool:
    if pattern.endswith(".*"):
        return event_type.startswith(pattern[:-1])
    return event_type == pattern
