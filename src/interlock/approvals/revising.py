"""What a job was before: the payloads that it had, and its latest rounds of asking."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from interlock.approvals.refusals import EditedTooOften
from interlock.jobs.model import Action, Job, Revision
from interlock.kernel.world import World

REVISIONS_MAX = 20
_BYTES_MAX = 4 * 1024 * 1024


def revised(world: World, job: Job, by: str, why: str, action: Action) -> tuple[Revision, ...]:
    """The job's revisions and what it still is, before it becomes `action`.

    They are bounded. What makes room is the oldest round that asked about the same payload as the next one, so that
    asking again does not make what was asked first go away. Where every one was an edit: `EditedTooOften`.
    """
    current = Revision(
        action=job.action,
        job_hash=job.job_hash,
        policy_snapshot=job.policy_snapshot,
        approval=job.approval,
        replaced_at=world.now,
        replaced_by=by,
        why=why,
    )
    kept = [*job.revisions, current]
    while _is_too_much(kept):
        edited = _edited(kept, action)
        if all(edited):
            raise EditedTooOften(job.id, job.state_at(world.now).value)
        del kept[edited.index(False)]
    return tuple(kept)


def _is_too_much(revisions: Sequence[Revision]) -> bool:
    payloads = [len(each.action.payload) for each in revisions]
    return len(payloads) > REVISIONS_MAX or (len(payloads) > 1 and sum(payloads) > _BYTES_MAX)


def _edited(revisions: Sequence[Revision], action: Action) -> list[bool]:
    """Of each revision, whether another payload came after it."""
    actions = (*(each.action for each in revisions), action)
    return [bytes(before.payload) != bytes(after.payload) for before, after in pairwise(actions)]
