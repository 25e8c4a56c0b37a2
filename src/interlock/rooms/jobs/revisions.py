"""Asking again: refresh a drifted request, or edit it. Votes are cleared; the old version is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.events.model import EventType
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal, PrincipalKind, Role
from interlock.rooms.identity.refusals import Forbidden, PeopleOnly
from interlock.rooms.identity.rules import caller_reads, check_is_person, identify
from interlock.rooms.jobs.drift import rebased, target_reads
from interlock.rooms.jobs.model import GRANTED_LABEL, JOBS, TRANSITIONS, Job, JobState, Revision
from interlock.rooms.jobs.placement import Placed, Proposal, ask_anew, place, placing_reads
from interlock.rooms.jobs.records import (
    DECISION_REFUSALS,
    announce_job,
    find_job,
    record_change,
    record_refusal,
)
from interlock.rooms.jobs.refusals import (
    AskedByWorkflow,
    EditedTooOften,
    HashMismatch,
    JobExpired,
    NotActionable,
    SubmitterUnknown,
)
from interlock.rooms.policy.action import Action
from interlock.rooms.policy.model import HEAD_ID, HEADS

REVISIONS_MAX = 20
_BYTES_MAX = 4 * 1024 * 1024
_CHANGES_MAX = 10
_NAME_MAX = 100


def revised(world: World, job: Job, by: str, why: str, action: Action) -> tuple[Revision, ...]:
    """The job's revisions with its present version added, before it becomes `action`.

    Their number is bounded. To make room, the oldest version with the same payload as the next one is dropped, so
    the payload that was asked about first stays. If every version has another payload, it raises `EditedTooOften`.
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
    """The fields in which the request differs from the version with this hash, or from any earlier version.

    If no version had this hash, there are none.
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
    """The members of the payload that differ, or the payload itself if it is not an object."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ["payload"]
    old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
    names = sorted({*old, *new})
    # 1, 1.0 and true are equal in Python, but not in JSON.
    return [
        f"payload.{name[:_NAME_MAX]}"
        for name in names
        if (name in old) != (name in new) or msgspec.json.encode(old[name]) != msgspec.json.encode(new[name])
    ]


def _is_too_much(revisions: Sequence[Revision]) -> bool:
    payloads = [len(each.action.payload) for each in revisions]
    return len(payloads) > REVISIONS_MAX or (len(payloads) > 1 and sum(payloads) > _BYTES_MAX)


def _edited(revisions: Sequence[Revision], action: Action) -> list[bool]:
    """For each revision, whether the payload was changed after it."""
    actions = (*(each.action for each in revisions), action)
    return [bytes(before.payload) != bytes(after.payload) for before, after in pairwise(actions)]


_VERBS = {JobState.APPROVAL: "ask", JobState.PENDING: "release", JobState.DENIED: "deny"}
_EVENTS: Mapping[JobState, EventType] = {
    JobState.APPROVAL: "approval.requested",
    JobState.PENDING: "job.released",
    JobState.DENIED: "job.denied",
}


class _AskAgain(Command[Job], frozen=True, kw_only=True):
    """What refresh and edit share. `submitter` is named by the shell, which read the job, and is checked."""

    caller: Caller
    job_id: str
    submitter: str

    def reads(self) -> Reads:
        tenant = self.caller.tenant
        return caller_reads(self.caller) | Reads(
            own=(JOBS.key(tenant, self.job_id),),
            see=(HEADS.key(tenant, HEAD_ID), PRINCIPALS.key(tenant, self.submitter)),
        )

    def more(self, world: World) -> Reads:
        # Check permission first: the refusal must not depend on what the policy says.
        _, job = self.admitted(world)
        placing = NOTHING if job.is_question else placing_reads(world, self._proposal(world, job))
        return placing | target_reads(job)

    def decide(self, world: World) -> Job:
        by, job = self.admitted(world)
        return self._ask_again(world, by, job)

    def refused(self, world: World, refusal: Refusal) -> None:
        if isinstance(refusal, DECISION_REFUSALS):
            record_refusal(world, self.caller, self._verb(), self.job_id, refusal)

    def admitted(self, world: World) -> tuple[Principal, Job]:
        """The caller and the job, if its request waits for people or has expired, so that it can be asked again."""
        by = identify(world, self.caller)
        job = find_job(world, self.caller.tenant, self.job_id)
        self._check_may(by, job)
        state = job.state_at(world.now)
        # A question without an answer in time has ended the step that asked it.
        if state is not JobState.APPROVAL and (job.is_question or state is not JobState.EXPIRED):
            raise NotActionable(job.id, state.value, self._verb())
        if job.expires_at is not None and job.is_over_at(world.now):
            raise JobExpired(job.id, job.expires_at, world.now)
        return by, job

    def _check_may(self, by: Principal, job: Job) -> None:
        """Submitters and operators may ask again; of the reviewers, only people."""
        if by.id == job.submitted_by or {Role.OPERATE, Role.ADMIN} & set(by.roles):
            return
        if Role.REVIEW not in by.roles:
            raise Forbidden(by.id, (Role.REVIEW,))
        if by.kind is not PrincipalKind.PERSON:
            raise PeopleOnly(by.id, by.kind.value)

    def _ask_again(self, world: World, by: Principal, job: Job) -> Job:
        round_number = job.approval.round + 1 if job.approval else 1
        proposal = self._proposal(world, job)
        action = rebased(world, proposal.action, job.tenant)
        proposal = msgspec.structs.replace(proposal, action=action)
        job_hash = proposal.action.hash(job.tenant)
        placed = self._placed(world, job, proposal, job_hash, round_number)
        stored = world.put(JOBS, self._renewed(world, by, job, proposal.action, placed, job_hash))
        record_change(world, stored, self.caller, self._verb(), reason=self._why(), old_hash=job.job_hash)
        announce_job(world, stored, _EVENTS[stored.state], round=round_number)
        return stored

    def _placed(self, world: World, job: Job, proposal: Proposal, job_hash: str, round_number: int) -> Placed:
        if job.is_question and job.approval:
            asked = (job.approval, job.verdict)
            return ask_anew(world, *asked, tenant=job.tenant, job_hash=job_hash, round_number=round_number)
        return place(world, proposal, job_hash=job_hash, ends_at=job.expires_at, round_number=round_number)

    def _renewed(
        self, world: World, by: Principal, job: Job, action: Action, placed: Placed, job_hash: str
    ) -> Job:
        after = TRANSITIONS.get((job.state, _VERBS[placed.state]))
        if after is None:
            raise NotActionable(job.id, job.state.value, self._verb())
        return msgspec.structs.replace(
            job,
            action=action,
            state=after,
            job_hash=job_hash,
            policy_snapshot=placed.policy_snapshot,
            verdict=placed.verdict,
            approval=placed.approval,
            system_labels={name: value for name, value in job.system_labels.items() if name != GRANTED_LABEL},
            revisions=revised(world, job, by.id, self._why(), action),
            submitter_people=self._submitters(by, job),
            updated_at=world.now,
        )

    def _proposal(self, world: World, job: Job) -> Proposal:
        submitter = world.get(PRINCIPALS, job.tenant, self.submitter)
        if submitter is None or job.submitted_by != self.submitter:
            raise SubmitterUnknown(job.id, job.state.value, job.submitted_by)
        return Proposal(tenant=job.tenant, action=self._action(job), actor=submitter, priority=job.priority)

    def _action(self, job: Job) -> Action:
        return job.action

    def _submitters(self, by: Principal, job: Job) -> tuple[str, ...]:
        return job.submitter_people

    def _verb(self) -> str:
        return "refresh"

    def _why(self) -> str:
        return ""


class RefreshApproval(_AskAgain, frozen=True, kw_only=True):
    """Put a drifted or expired request back on the current policy, hash and version of its target."""


class EditJob(_AskAgain, frozen=True, kw_only=True):
    """Change the payload of a request. The editor counts as a submitter and cannot approve it alone."""

    payload: msgspec.Raw
    reason: str
    job_hash: str | None = None

    def _check_may(self, by: Principal, job: Job) -> None:
        """Submitters may change their own request. Only people may change the request of another principal."""
        if by.id != job.submitted_by:
            check_is_person(by, self.caller)
        super()._check_may(by, job)

    def admitted(self, world: World) -> tuple[Principal, Job]:
        by, job = super().admitted(world)
        if job.is_question:
            raise AskedByWorkflow(job.id, job.state.value, job.run_id or "")
        if self.job_hash is not None and self.job_hash != job.job_hash:
            raise HashMismatch(job.id, job.state.value, job.job_hash, changes_since(job, self.job_hash))
        return by, job

    def _action(self, job: Job) -> Action:
        return msgspec.structs.replace(job.action, payload=self.payload)

    def _submitters(self, by: Principal, job: Job) -> tuple[str, ...]:
        return tuple(sorted({*job.submitter_people, *by.people}))

    def _verb(self) -> str:
        return "edit"

    def _why(self) -> str:
        return self.reason
