"""What a job was before: the payloads that it had, and its latest rounds of asking."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import msgspec

from interlock.approvals.refusals import EditedTooOften
from interlock.jobs.model import Action, Job, Revision
from interlock.kernel.world import World

REVISIONS_MAX = 20
_BYTES_MAX = 4 * 1024 * 1024
_CHANGES_MAX = 10
_NAME_MAX = 100


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


def changes_since(job: Job, seen_hash: str | None) -> tuple[str, ...]:
    """The places in which the request is another than in the version with this hash, or than in any before it.

    Of a hash that no version had, nothing can be said.
    """
    others = [old for old in job.revisions if old.job_hash != job.job_hash]
    before = [old.action for old in others if seen_hash is None or old.job_hash == seen_hash]
    places = dict.fromkeys(place for action in before for place in _differing(action, job.action))
    more = len(places) - _CHANGES_MAX
    return (*list(places)[:_CHANGES_MAX], *([f"{more} more"] if more > 0 else ()))


def _differing(before: Action, after: Action) -> list[str]:
    fields = [
        name
        for name in ("topic", "env", "channel", "labels", "risk", "target")
        if getattr(before, name) != getattr(after, name)
    ]
    if bytes(before.payload) == bytes(after.payload):
        return fields
    return fields + _differing_members(
        msgspec.json.decode(before.payload), msgspec.json.decode(after.payload)
    )


def _differing_members(before: object, after: object) -> list[str]:
    """The payload's members that differ, or the payload where it is no object."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ["payload"]
    old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
    names = sorted({*old, *new})
    # 1, 1.0 and true are equal here, but not as a request spells them.
    return [
        f"payload.{name[:_NAME_MAX]}"
        for name in names
        if (name in old) != (name in new) or msgspec.json.encode(old[name]) != msgspec.json.encode(new[name])
    ]


def _is_too_much(revisions: Sequence[Revision]) -> bool:
    payloads = [len(each.action.payload) for each in revisions]
    return len(payloads) > REVISIONS_MAX or (len(payloads) > 1 and sum(payloads) > _BYTES_MAX)


def _edited(revisions: Sequence[Revision], action: Action) -> list[bool]:
    """Of each revision, whether another payload came after it."""
    actions = (*(each.action for each in revisions), action)
    return [bytes(before.payload) != bytes(after.payload) for before, after in pairwise(actions)]
