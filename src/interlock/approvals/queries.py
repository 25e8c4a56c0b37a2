"""Reading approval requests."""

from __future__ import annotations

from interlock.approvals.model import ApprovalState
from interlock.jobs.model import JOBS, Job
from interlock.store.contract import Store
from interlock.store.paging import Records, page_of


async def list_approvals(
    store: Store, tenant: str, *, state: ApprovalState | None, before: str | None, limit: int
) -> Records[Job]:
    """Jobs that people were asked about, newest first."""
    if state is None:
        return await page_of(store, JOBS, "approvals.list_approvals", {"tenant": tenant}, before, limit)
    params = {"tenant": tenant, "state": state.value}
    return await page_of(store, JOBS, "approvals.list_approvals_by_state", params, before, limit)
