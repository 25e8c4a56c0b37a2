"""Reading approval requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from interlock.kernel.computation import Compute, compute_here
from interlock.kernel.ids import new_id
from interlock.kernel.pages import Records, page_of
from interlock.kernel.record import Reads, merge_reads, micros
from interlock.kernel.storage import Store
from interlock.kernel.world import World
from interlock.rooms.identity.model import PRINCIPALS
from interlock.rooms.identity.queries import list_people
from interlock.rooms.jobs.approvals import (
    eligibility_reads,
    is_whole,
    people_able,
    people_who_agree,
    still_asks,
)
from interlock.rooms.jobs.discussion import Remark, remarks
from interlock.rooms.jobs.drift import moved_target, target_reads
from interlock.rooms.jobs.model import DISCUSSIONS, JOBS, Approval, ApprovalState, Job, JobState
from interlock.rooms.policy.model import HEAD_ID, HEADS, PolicyUnavailable


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """How many more people must agree, not counting votes that no longer count; `obstacle` is what stops them all."""

    votes_needed: int
    obstacle: str | None


def foresight_reads(job: Job) -> Reads:
    """What `foresee` looks at besides the job."""
    return Reads(see=(HEADS.key(job.tenant, HEAD_ID),)) | eligibility_reads(job) | target_reads(job)


def foresee(world: World, job: Job, approval: Approval) -> Foreseen:
    """What a yes by somebody who may decide would meet now."""
    return Foreseen(votes_needed=votes_needed(world, job, approval), obstacle=_obstacle(world, job, approval))


def votes_needed(world: World, job: Job, approval: Approval) -> int:
    """How many more people must agree, not counting votes that no longer count."""
    return max(0, approval.requirement.quorum - len(people_who_agree(world, job, approval)))


def _obstacle(world: World, job: Job, approval: Approval) -> str | None:
    state = job.state_at(world.now)
    if state is not JobState.APPROVAL:
        return f"the job is {state.value}"
    if not is_whole(job, approval):
        return "what is stored no longer matches its hash; find out who changed it"
    if moved := moved_target(world, job):
        return f"{moved.id} moved to {moved.current} since it was asked; refresh it first"
    try:
        asks = still_asks(world, job, approval)
    except PolicyUnavailable as failed:
        return failed.detail
    return None if asks else "the policy changed since it was asked; refresh it first"


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
        f"jobs.{name}",
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


async def read_comments(store: Store, job: Job) -> tuple[Remark, ...]:
    """All that was said of a job's requests, the oldest first."""
    return remarks(job, await store.get(DISCUSSIONS, job.tenant, job.id))


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
