"""What would come of a yes at this moment, for whoever is about to give it: the same rules, asked beforehand."""

from __future__ import annotations

import msgspec

from interlock.approvals.binding import is_whole, still_asks
from interlock.approvals.drifting import moved_target, target_reads
from interlock.approvals.eligibility import eligibility_reads, people_who_agree
from interlock.approvals.model import Approval
from interlock.jobs.model import Job, JobState
from interlock.kernel.record import Reads
from interlock.kernel.world import World
from interlock.policy.model import HEAD_ID, HEADS
from interlock.policy.refusals import PolicyUnavailable


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
