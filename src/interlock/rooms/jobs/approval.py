"""An approval request: what must be decided, by whom, until when, and the votes so far.

It is stored inside its job's record, so that a job's state and its approval can never disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


TRANSITIONS: Mapping[tuple[ApprovalState, str], ApprovalState] = {
    (ApprovalState.PENDING, "vote"): ApprovalState.PENDING,
    (ApprovalState.PENDING, "escalate"): ApprovalState.PENDING,
    (ApprovalState.PENDING, "approve"): ApprovalState.APPROVED,
    (ApprovalState.PENDING, "reject"): ApprovalState.REJECTED,
    (ApprovalState.PENDING, "expire"): ApprovalState.EXPIRED,
    (ApprovalState.PENDING, "withdraw"): ApprovalState.WITHDRAWN,
    (ApprovalState.PENDING, "take_back"): ApprovalState.PENDING,
    (ApprovalState.APPROVED, "take_back"): ApprovalState.PENDING,
    (ApprovalState.PENDING, "renew"): ApprovalState.PENDING,
    (ApprovalState.EXPIRED, "renew"): ApprovalState.PENDING,
}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """From `after_seconds` on, these groups may decide too."""

    after_seconds: int
    groups: tuple[str, ...]


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the policy asked for when the request was made."""

    quorum: int = 1
    groups: tuple[str, ...] = ()
    self_approval: bool = False
    expires_seconds: int = 86_400
    on_expiry: str = "deny"
    escalate: tuple[Step, ...] = ()
    binding: str = "strict"
    require_hash: bool = False
    grace_seconds: int = 0


class Vote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One person's yes. `groups` are those they were in when they said it, `via` is where they said it."""

    principal: str
    person: str
    at: datetime
    reason: str = ""
    note: str = ""
    groups: tuple[str, ...] = ()
    via: str = "api"


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request for people's decision. `round` counts how often it was asked anew.

    `ends_by` is the end of the job itself, where an escalation could otherwise outlast it. Until `grace_until`
    whoever voted may take the decision back.
    """

    state: ApprovalState = ApprovalState.PENDING
    requirement: Requirement
    rule: str | None = None
    policy_snapshot: str
    job_hash: str
    requested_at: datetime
    expires_at: datetime
    ends_by: datetime | None = None
    round: int = 1
    votes: tuple[Vote, ...] = ()
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    decided_via: str | None = None
    grace_until: datetime | None = None
    reason: str = ""
    note: str = ""
    code: str | None = None
    steps_announced: int = 0

    def after(self, verb: str) -> ApprovalState:
        """The state that this verb leads to."""
        return TRANSITIONS[self.state, verb]

    def state_at(self, now: datetime) -> ApprovalState:
        """The state by the clock: a request past its time is expired even if no sweep has run."""
        overdue = self.state is ApprovalState.PENDING and now >= self.ends_at
        return ApprovalState.EXPIRED if overdue else self.state

    def is_in_grace_at(self, now: datetime) -> bool:
        """Whether it was approved, and may still be taken back."""
        is_approved = self.state is ApprovalState.APPROVED
        return is_approved and self.grace_until is not None and now < self.grace_until

    @property
    def ends_at(self) -> datetime:
        """When it expires for good: `on_expiry: escalate` grants one more period, with every step open."""
        if self.requirement.on_expiry != "escalate":
            return self.expires_at
        escalated = self.expires_at + timedelta(seconds=self.requirement.expires_seconds)
        return min(escalated, self.ends_by) if self.ends_by else escalated

    def groups_at(self, now: datetime) -> tuple[str, ...]:
        """Who may decide by now; empty means any person with the role."""
        requirement = self.requirement
        if not requirement.groups:
            return ()
        open_steps = [step for step in requirement.escalate if self._is_open(step, now)]
        return (*requirement.groups, *(group for step in open_steps for group in step.groups))

    def steps_open_at(self, now: datetime) -> int:
        return sum(1 for step in self.requirement.escalate if self._is_open(step, now))

    def next_step_at(self) -> datetime | None:
        """When the sweep should look at this request: its next escalation not yet announced, or its end."""
        if self.state is not ApprovalState.PENDING:
            return None
        steps = self.requirement.escalate[self.steps_announced :]
        return min([*map(self._opens_at, steps), self.ends_at]) if steps else self.ends_at

    def _is_open(self, step: Step, now: datetime) -> bool:
        return now >= self._opens_at(step)

    def _opens_at(self, step: Step) -> datetime:
        """A step opens when its time has come, and at the latest when the request would expire."""
        return min(self.requested_at + timedelta(seconds=step.after_seconds), self.expires_at)
