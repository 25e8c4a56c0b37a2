"""Reading leases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.kernel.pages import Records, page_of, readable
from interlock.kernel.record import micros
from interlock.kernel.storage import Store
from interlock.rooms.leases.model import (
    CHECKPOINTS,
    LEASES,
    NODES,
    TERMS,
    TERMS_ID,
    Checkpoint,
    Lease,
    LeaseTerms,
    Node,
)


async def read_lease(store: Store, tenant: str, lease_id: str) -> Lease | None:
    return await store.get(LEASES, tenant, lease_id)


async def read_terms(store: Store, tenant: str) -> LeaseTerms:
    kept = await store.get(TERMS, tenant, TERMS_ID)
    return kept or LeaseTerms(tenant=tenant, id=TERMS_ID)


async def list_leases(
    store: Store,
    tenant: str,
    *,
    live_at: datetime | None,
    resource: str | None,
    owner: str | None,
    before: str | None,
    limit: int,
) -> Records[Lease]:
    """Leases, newest first, narrowed by resource and owner, and to those that hold something at a moment."""
    by = [name for name, value in (("resource", resource), ("owner", owner)) if value is not None]
    which = "list_live_leases" if live_at else "list_leases"
    name = f"leases.{which}{'_by_' if by else ''}{'_and_'.join(by)}"
    given = {"resource": resource, "owner": owner}
    params: dict[str, Any] = {"tenant": tenant, **{field: given[field] for field in by}}
    if live_at:
        params["now"] = micros(live_at)
    return await page_of(store, LEASES, name, params, before, limit)


async def list_checkpoints(store: Store, tenant: str, lease_id: str, *, limit: int) -> list[Checkpoint]:
    """The last checkpoints of a lease, newest first."""
    params = {"tenant": tenant, "lease": lease_id, "limit": limit}
    rows = await store.query("leases.list_checkpoints", params)
    return [kept.checkpoint for kept in readable(CHECKPOINTS, (row[0] for row in rows))]


async def list_lines(store: Store, tenant: str, *, limit: int) -> list[Node]:
    """Paths with callers in line, by name."""
    params = {"tenant": tenant, "after": "", "limit": limit}
    return readable(NODES, (row[0] for row in await store.query("leases.list_nodes_with_line", params)))
