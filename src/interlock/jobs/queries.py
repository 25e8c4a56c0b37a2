"""Reading jobs."""

from __future__ import annotations

from interlock.jobs.model import JOBS, Job, JobState
from interlock.store.contract import Store
from interlock.store.paging import Records, page_of


async def read_job(store: Store, tenant: str, job_id: str) -> Job | None:
    return await store.get(JOBS, tenant, job_id)


async def list_jobs(
    store: Store, tenant: str, *, state: JobState | None, topic: str | None, before: str | None, limit: int
) -> Records[Job]:
    """Jobs, newest first, narrowed by state and topic."""
    by = [name for name, value in (("state", state), ("topic", topic)) if value is not None]
    name = f"jobs.list_jobs{'_by_' if by else ''}{'_and_'.join(by)}"
    given = {"state": state.value if state else None, "topic": topic}
    params = {"tenant": tenant, **{field: given[field] for field in by}}
    return await page_of(store, JOBS, name, params, before, limit)


async def list_observed(store: Store, tenant: str, *, before: str | None, limit: int) -> Records[Job]:
    """Jobs that enforcement would have stopped, newest first."""
    return await page_of(store, JOBS, "jobs.list_observed", {"tenant": tenant}, before, limit)
