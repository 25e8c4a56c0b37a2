"""Reading runs and limits."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.pages import Records, page_of, readable
from interlock.kernel.record import micros
from interlock.kernel.storage import Store, cut
from interlock.rooms.admission.model import (
    GATES,
    LIMITS,
    RUNS,
    TALLIES,
    TENANT_SCOPE,
    TRAFFIC_SHEETS,
    Gate,
    Limit,
    Run,
    RunState,
    Tally,
    TrafficSheet,
)


async def read_run(store: Store, tenant: str, run_id: str) -> Run | None:
    return await store.get(RUNS, tenant, run_id)


async def list_runs(
    store: Store,
    tenant: str,
    *,
    state: RunState | None,
    workflow: str | None,
    now: datetime,
    before: str | None,
    limit: int,
) -> Records[Run]:
    """Runs, newest first, narrowed by workflow and by state as of `now`."""
    is_lost = state is RunState.LOST
    given = {"state": state.value if state and not is_lost else None, "workflow": workflow}
    by = {name: value for name, value in given.items() if value is not None}
    listing = "list_lost_runs" if is_lost else "list_runs"
    name = f"admission.{listing}{'_by_' if by else ''}{'_and_'.join(by)}"
    params = {"tenant": tenant, **by, **({"now": micros(now)} if state else {})}
    return await page_of(store, RUNS, name, params, before, limit)


async def list_limits(
    store: Store, tenant: str, *, after: str | None, limit: int
) -> tuple[list[tuple[Limit, Gate | None]], str | None]:
    """Limits that were set, by scope, each with its gate, and where to go on."""
    rows = await store.query(
        "admission.list_limits", {"tenant": tenant, "after": after or "", "limit": limit + 1}
    )
    found = [
        (known, next(iter(readable(GATES, (gate,) if gate else ())), None))
        for limited, gate in rows
        for known in readable(LIMITS, (limited,))
    ]
    return cut(found, limit, lambda limited: limited[0].id, rows=len(rows))


async def tenant_gate(store: Store, tenant: str) -> tuple[Gate, int]:
    """A tenant's gate, and how many runs there are that it should count, as of one moment."""
    rows = await store.query("admission.tenant_gate", {"tenant": tenant})
    if not rows:
        return Gate(tenant=tenant, id=TENANT_SCOPE), 0
    return GATES.decode(rows[0][0]), int(rows[0][1] or 0)


async def read_tally(store: Store, tenant: str, tally_id: str) -> Tally | None:
    return await store.get(TALLIES, tenant, tally_id)


async def pending_tallies(store: Store, tenant: str, since: datetime, *, limit: int) -> list[Tally]:
    """What the servers of a tenant have counted since then and no sheet has yet, the newest first."""
    params = {"tenant": tenant, "since": micros(since), "limit": limit}
    rows = await store.query("admission.pending_tallies_of_tenant", params)
    return readable(TALLIES, (row[0] for row in rows))


async def sheets_of(
    store: Store, tenant: str, shelf: str, name: str, since: datetime, *, limit: int
) -> list[TrafficSheet]:
    """The sheets of one name since then, the oldest first."""
    params = {"tenant": tenant, "shelf": shelf, "name": name, "since": micros(since), "limit": limit}
    rows = await store.query("admission.traffic_sheets_of", params)
    return readable(TRAFFIC_SHEETS, (row[0] for row in rows))


async def sheets_from(
    store: Store, tenant: str, shelf: str, after: str, since: datetime, *, limit: int
) -> list[TrafficSheet]:
    """The sheets since then of the names after `after`, by name."""
    params = {"tenant": tenant, "shelf": shelf, "after": after, "since": micros(since), "limit": limit}
    rows = await store.query("admission.traffic_sheets_from", params)
    return readable(TRAFFIC_SHEETS, (row[0] for row in rows))


async def tenants_with_expired_runs(store: Store, now_micros: int, *, limit: int) -> list[str]:
    """The tenants that have slots to take back."""
    rows = await store.query("admission.tenants_with_expired_runs", {"now": now_micros, "limit": limit})
    return [str(row[0]) for row in rows]
