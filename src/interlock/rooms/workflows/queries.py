"""Reading workflows and the progress of runs."""

from __future__ import annotations

from interlock.kernel.pages import Records, readable, rows_for_page
from interlock.kernel.storage import Store, cut
from interlock.rooms.workflows.model import PROGRESS, WORKFLOWS, Progress, Workflow


async def read_workflow(store: Store, tenant: str, workflow: str) -> Workflow | None:
    return await store.get(WORKFLOWS, tenant, workflow)


async def read_progress(store: Store, tenant: str, run_id: str) -> Progress | None:
    return await store.get(PROGRESS, tenant, run_id)


async def list_workflows(store: Store, tenant: str, *, after: str | None, limit: int) -> Records[Workflow]:
    """Workflows by id."""
    params = {"tenant": tenant, "after": after or "", "limit": limit + 1}
    rows, is_full = await rows_for_page(store, "workflows.list_workflows", params)
    found = readable(WORKFLOWS, (row[0] for row in rows))
    return Records(*cut(found, limit, lambda workflow: workflow.id, rows=len(rows), is_full=is_full))


async def runs_under_way(store: Store, *, after: str, limit: int) -> list[tuple[str, str]]:
    """Tenant and id of runs whose steps are not over."""
    rows = await store.query("workflows.runs_under_way", {"after": after, "limit": limit})
    return [(str(row[0]), str(row[1])) for row in rows]
