"""Reading conflicts. While a conflict is open, its count is that of its group."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from interlock.kernel.pages import NEWEST, Records, readable
from interlock.kernel.record import Params, from_micros
from interlock.kernel.storage import Store, cut
from interlock.rooms.conflicts.model import CONFLICTS, SAFEST, Conflict, ConflictKind, ConflictState


async def read_conflict(store: Store, tenant: str, conflict_id: str) -> Conflict | None:
    conflict = await store.get(CONFLICTS, tenant, conflict_id)
    if conflict is None or conflict.group is None:
        return conflict
    params = {"tenant": tenant, "conflict_id": conflict_id}
    rows = await store.query("conflicts.group_of_conflict", params)
    return _counted(conflict, *rows[0]) if rows else conflict


async def list_conflicts(
    store: Store,
    tenant: str,
    *,
    state: ConflictState | None,
    kind: ConflictKind | None,
    before: str | None,
    limit: int,
) -> Records[Conflict]:
    """Conflicts, newest first, narrowed by state and kind."""
    by = [name for name, value in (("state", state), ("kind", kind)) if value is not None]
    name = f"conflicts.list_conflicts{'_by_' if by else ''}{'_and_'.join(by)}"
    given = {"state": state.value if state else None, "kind": kind.value if kind else None}
    return await _page(
        store, name, {"tenant": tenant, **{field: given[field] for field in by}}, before, limit
    )


async def list_open_conflicts_of(store: Store, tenant: str, target: str, *, limit: int) -> list[Conflict]:
    """Open conflicts over one target, newest first."""
    params = {"tenant": tenant, "target": target}
    return (await _page(store, "conflicts.list_open_conflicts_of_target", params, None, limit)).items


async def count_open(store: Store, tenant: str, *, limit: int) -> int:
    """How many conflicts are open, counted up to `limit`."""
    return int(
        (await store.query("conflicts.count_open_conflicts", {"tenant": tenant, "limit": limit}))[0][0]
    )


async def _page(store: Store, name: str, params: Params, before: str | None, limit: int) -> Records[Conflict]:
    rows = await store.query(name, {**params, "before": before or NEWEST, "limit": limit + 1})
    found = [
        _counted(conflict, count, last_seen_at)
        for body, count, last_seen_at in rows
        for conflict in readable(CONFLICTS, (body,))
    ]
    return Records(*cut(found, limit, lambda conflict: conflict.id, rows=len(rows)))


def _counted(conflict: Conflict, count: int | None, last_seen_at: int | None) -> Conflict:
    if count is None or last_seen_at is None:
        return conflict
    return msgspec.structs.replace(conflict, count=count, last_seen_at=from_micros(last_seen_at))


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
