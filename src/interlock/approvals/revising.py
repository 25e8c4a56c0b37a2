"""What a job was before: the payloads that it had, and its latest rounds of asking."""

from __future__ import annotations

from itertools import pairwise

from interlock.jobs.model import Action, Job, Revision
from interlock.kernel.world import World

REVISIONS_MAX = 20


def revised(world: World, job: Job, by: str, why: str, action: Action) -> tuple[Revision, ...]:
    """The job's revisions and what it still is, before it becomes `action`.

    They are bounded. What makes room is the oldest round that asked about the same payload as the next one, so that
    asking again does not make what was asked first go away; only where every one was an edit, the oldest version.
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
    kept = (*job.revisions, current)
    if len(kept) <= REVISIONS_MAX:
        return kept
    edited = _edited(kept, action)
    spare = 0 if all(edited) else edited.index(False)
    return kept[:spare] + kept[spare + 1 :]


def _edited(revisions: tuple[Revision, ...], action: Action) -> list[bool]:
    """Of each revision, whether another payload came after it."""
    actions = (*(each.action for each in revisions), action)
    return [bytes(before.payload) != bytes(after.payload) for before, after in pairwise(actions)]
