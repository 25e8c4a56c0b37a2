"""Reading conflicts. While a conflict is open, its count is that of its group."""

from __future__ import annotations

import msgspec

from interlock.conflicts.model import CONFLICTS, Conflict, ConflictKind, ConflictState
from interlock.kernel.record import Params, from_micros
from interlock.store.contract import Store, cut
from interlock.store.paging import NEWEST, Records
from interlock.store.unreadable import readable


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
