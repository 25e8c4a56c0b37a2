"""Reading runs and limits."""

from __future__ import annotations

from interlock.admission.model import LIMITS, RUNS, Limit, Run, RunState
from interlock.store.contract import Store
from interlock.store.paging import Records, page_of


async def read_run(store: Store, tenant: str, run_id: str) -> Run | None:
    return await store.get(RUNS, tenant, run_id)


async def list_runs(
    store: Store, tenant: str, *, state: RunState | None, workflow: str | None, before: str | None, limit: int
) -> Records[Run]:
    """Runs, newest first, narrowed by state and workflow."""
    by = [name for name, value in (("state", state), ("workflow", workflow)) if value is not None]
    name = f"admission.list_runs{'_by_' if by else ''}{'_and_'.join(by)}"
    given = {"state": state.value if state else None, "workflow": workflow}
    params = {"tenant": tenant, **{field: given[field] for field in by}}
    return await page_of(store, RUNS, name, params, before, limit)


async def list_limits(store: Store, tenant: str, *, after: str | None, limit: int) -> list[Limit]:
    """Limits that somebody set, by scope."""
    rows = await store.query(
        "admission.list_limits", {"tenant": tenant, "after": after or "", "limit": limit}
    )
    return [LIMITS.decode(row[0]) for row in rows]


async def tenants_with_expired_runs(store: Store, now_micros: int, *, limit: int) -> list[str]:
    """Where a sweep has slots to take back."""
    rows = await store.query("admission.tenants_with_expired_runs", {"now": now_micros, "limit": limit})
    return [str(row[0]) for row in rows]
