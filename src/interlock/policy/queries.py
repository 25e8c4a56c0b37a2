"""Reading policies."""

from __future__ import annotations

from interlock.policy.model import HEAD_ID, HEADS, SNAPSHOTS, PolicyHead, PolicySnapshot
from interlock.store.contract import Store

_NEWEST = 2**62


async def read_head(store: Store, tenant: str) -> PolicyHead | None:
    return await store.get(HEADS, tenant, HEAD_ID)


async def read_snapshot(store: Store, tenant: str, snapshot: str) -> PolicySnapshot | None:
    return await store.get(SNAPSHOTS, tenant, snapshot)


async def list_snapshots(
    store: Store, tenant: str, *, before: int | None, limit: int
) -> list[tuple[int, PolicySnapshot]]:
    """Snapshots with their positions, newest first."""
    params = {"tenant": tenant, "before": _NEWEST if before is None else before, "limit": limit}
    rows = await store.query("policy.list_snapshots", params)
    return [(int(row[0]), SNAPSHOTS.decode(row[1])) for row in rows]
