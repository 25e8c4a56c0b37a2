"""Reading policies."""

from __future__ import annotations

from interlock.kernel.pages import Records, readable, rows_for_page
from interlock.kernel.storage import Store, cut
from interlock.rooms.policy.model import HEAD_ID, HEADS, SNAPSHOTS, PolicyHead, PolicySnapshot

_NEWEST = 2**62


async def read_head(store: Store, tenant: str) -> PolicyHead | None:
    return await store.get(HEADS, tenant, HEAD_ID)


async def read_snapshot(store: Store, tenant: str, snapshot: str) -> PolicySnapshot | None:
    return await store.get(SNAPSHOTS, tenant, snapshot)


async def list_snapshots(
    store: Store, tenant: str, *, before: int | None, limit: int
) -> Records[PolicySnapshot]:
    """Snapshots, newest first."""
    params = {"tenant": tenant, "before": _NEWEST if before is None else before, "limit": limit + 1}
    rows, is_full = await rows_for_page(store, "policy.list_snapshots", params)
    page, cursor = cut(rows, limit, lambda row: str(row[0]), is_full=is_full)
    return Records(readable(SNAPSHOTS, (row[1] for row in page)), cursor)
