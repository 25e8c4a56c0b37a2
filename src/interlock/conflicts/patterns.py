"""Patterns: what collides again and again, and the line of the runbook that would prevent it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from interlock.conflicts.model import SAFEST, Conflict, ConflictKind, ConflictState


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Conflicts of one kind over targets with one prefix. `count` includes repeats that were grouped."""

    kind: ConflictKind
    target_prefix: str
    conflicts: int
    open: int
    count: int
    last_seen_at: datetime
    targets: tuple[str, ...]
    prevention: str


_TARGETS_SHOWN = 5


def patterns_of(conflicts: Iterable[Conflict]) -> list[Pattern]:
    """Group conflicts by kind and by the first part of their target, the most frequent first."""
    groups: dict[tuple[ConflictKind, str], list[Conflict]] = {}
    for conflict in conflicts:
        groups.setdefault((conflict.kind, prefix_of(conflict.target)), []).append(conflict)
    found = [_pattern(kind, prefix, members) for (kind, prefix), members in groups.items()]
    return sorted(found, key=lambda pattern: (-pattern.count, pattern.kind.value, pattern.target_prefix))


def prefix_of(target: str) -> str:
    """What targets of one family share: the path up to its last part, or the word before the colon."""
    folder, slash, _ = target.rpartition("/")
    if slash:
        return f"{folder}/"
    family, colon, _ = target.partition(":")
    return f"{family}:" if colon else target


def _pattern(kind: ConflictKind, prefix: str, members: list[Conflict]) -> Pattern:
    return Pattern(
        kind=kind,
        target_prefix=prefix,
        conflicts=len(members),
        open=sum(member.state is ConflictState.OPEN for member in members),
        count=sum(member.count for member in members),
        last_seen_at=max(member.last_seen_at or member.opened_at for member in members),
        targets=tuple(dict.fromkeys(member.target for member in members))[:_TARGETS_SHOWN],
        prevention=SAFEST[kind].prevention,
    )
