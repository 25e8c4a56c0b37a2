"""Reading approval requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from interlock.approvals.eligibility import eligibility_reads, people_able
from interlock.approvals.foreseeing import foresight_reads, votes_needed
from interlock.approvals.model import Approval, ApprovalState
from interlock.identity.model import PRINCIPALS
from interlock.identity.queries import list_people
from interlock.jobs.model import JOBS, Job, JobState
from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import new_id
from interlock.kernel.record import merge_reads, micros
from interlock.kernel.world import World
from interlock.store.contract import Store
from interlock.store.paging import Records, page_of

PEOPLE_MAX = 1000


async def list_approvals(
    store: Store, tenant: str, *, state: ApprovalState | None, now: datetime, before: str | None, limit: int
) -> Records[Job]:
    """Jobs that people were asked about, newest first, narrowed by the request's state as of `now`."""
    name, params = "list_approvals", {"tenant": tenant}
    if state is ApprovalState.EXPIRED:
        name, params = "list_expired_approvals", {"tenant": tenant, "now": micros(now)}
    elif state is ApprovalState.PENDING:
        name = "list_pending_approvals"
    elif state is not None:
        name, params = "list_decided_approvals", {"tenant": tenant, "state": state.value}
    return await page_of(
        store,
        JOBS,
        f"approvals.{name}",
        params,
        before,
        limit,
        keep=lambda job: state in (None, _state_at(job, now)),
    )


async def world_of_request(store: Store, job: Job, now: datetime, compute: Compute = compute_here) -> World:
    """What `foresee` needs to know of a request, as last committed; nothing can be decided in it."""
    world = World(now, new_id, compute=compute)
    world.admit({key: await store.get(*key) for key in foresight_reads(job).see}, owned=())
    return world


async def count_votes_needed(store: Store, jobs: Sequence[Job], now: datetime) -> dict[str, int]:
    """How many more people must agree to each of these that waits for people, without votes that no longer count."""
    waiting = [(job, job.approval) for job in jobs if job.approval and job.state_at(now) is JobState.APPROVAL]
    reads = merge_reads([eligibility_reads(job) for job, approval in waiting if approval.votes])
    world = World(now, new_id)
    world.admit({key: await store.get(*key) for key in reads.see}, owned=())
    return {job.id: votes_needed(world, job, approval) for job, approval in waiting}


async def count_people_able(store: Store, world: World, job: Job, approval: Approval) -> int | None:
    """How many people may decide a request, those who voted among them.

    None if it no longer waits for them, or if there are more people than are looked at for a page. `world` is that
    of the request, and learns of the tenant's people.
    """
    if job.state_at(world.now) is not JobState.APPROVAL:
        return None
    people = await list_people(store, job.tenant, limit=PEOPLE_MAX + 1)
    if len(people) > PEOPLE_MAX:
        return None
    world.admit({PRINCIPALS.key_of(each): each for each in people}, owned=())
    return len(people_able(world, job, approval, people))


def _state_at(job: Job, now: datetime) -> ApprovalState | None:
    """The request's state by the clock; one whose job's own time is up has expired with it."""
    if job.state is JobState.APPROVAL and job.state_at(now) is JobState.EXPIRED:
        return ApprovalState.EXPIRED
    return job.approval.state if job.approval else None
