"""What one person may do about a request now, found by the very checks that the commands make."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads, identify
from interlock.rooms.jobs.approvals import check_undecided, eligibility_reads, open_request, require_person
from interlock.rooms.jobs.model import JOBS, Approval, Job
from interlock.rooms.jobs.revisions import EditJob, RefreshApproval
from interlock.rooms.jobs.withdrawal import has_voted, votes_without, withdrawable

_NO_PAYLOAD = msgspec.Raw(b"{}")


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do now. `why_not` is what an approve or a reject would be refused with."""

    why_not: Refusal | None
    voted: bool
    may_withdraw: bool
    may_edit: bool
    may_refresh: bool


def abilities_reads(caller: Caller, job: Job) -> Reads:
    """What `abilities` looks at."""
    return caller_reads(caller) | Reads(see=(JOBS.key(job.tenant, job.id),)) | eligibility_reads(job)


def abilities(world: World, caller: Caller, job: Job, approval: Approval) -> Abilities:
    """What this caller may do about a request. That it has drifted stops a yes, but not a decision: see `foresee`."""
    refresh = RefreshApproval(caller=caller, job_id=job.id, submitter=job.submitted_by)
    edit = EditJob(caller=caller, job_id=job.id, submitter=job.submitted_by, payload=_NO_PAYLOAD, reason="")
    return Abilities(
        why_not=refusal_to_decide(world, caller, job),
        voted=has_voted(approval, identify(world, caller)),
        may_withdraw=_refusal(lambda: _check_withdrawal(world, caller, job)) is None,
        may_edit=_refusal(lambda: edit.admitted(world)) is None,
        may_refresh=_refusal(lambda: refresh.admitted(world)) is None,
    )


def refusal_to_decide(world: World, caller: Caller, job: Job) -> Refusal | None:
    """None if this caller may decide the job's request now, else what a decision would be refused with."""

    def check() -> None:
        _, _, approval = open_request(world, caller, job.id, "decide")
        check_undecided(job, approval)

    return _refusal(check)


def _check_withdrawal(world: World, caller: Caller, job: Job) -> None:
    votes_without(job, withdrawable(world, job), require_person(world, caller))


def _refusal(check: Callable[[], object]) -> Refusal | None:
    try:
        check()
    except Refusal as refusal:
        return refusal
    return None
