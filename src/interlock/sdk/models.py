"""What the service answers with, as types.

Unknown fields are ignored and most known ones may be missing, so that a client outlives the server it
was written against. States stay strings for the same reason.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from interlock.sdk.grant_models import JobGrantUse

T = TypeVar("T")

UNFINISHED = frozenset({"APPROVAL", "PENDING", "RUNNING"})


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a listing, newest first; pass `next_cursor` as `cursor` for the next."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rule's expression could not be answered about a job; `field` is what it could not read, if known."""

    expression: str = ""
    why: str = ""
    field: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said of a job; `rule` is None where the policy's default decided.

    Under `mode: observe` the job was released, and `observed` is what would have happened to it. With `failure`, the
    rule's expression could not be answered, which denies.
    """

    decision: str
    rule: str | None = None
    reason: str | None = None
    observed: str | None = None
    failure: Failure | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job would change, and the version its proposer saw."""

    key: str
    version: str | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something for the reviewer to look at: text, or a link."""

    title: str
    kind: str
    content: str | None = None
    url: str | None = None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One person's yes. `groups` are those they were in when they said it."""

    principal: str
    at: datetime | None = None
    reason: str | None = None
    note: str | None = None
    groups: tuple[str, ...] = ()
    via: str = "api"


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """Who may decide, too, after a time."""

    after_seconds: int
    groups: tuple[str, ...] = ()


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """People's decision on a job: `pending`, `approved`, `rejected`, `expired` or `withdrawn`.

    Empty `groups` means that any person with the role `review` may decide. While it is `in_grace`, until
    `grace_until`, whoever voted may withdraw, and nobody may claim the job.
    """

    state: str
    rule: str | None = None
    quorum: int = 1
    groups: tuple[str, ...] = ()
    self_approval: bool = False
    binding: str = "strict"
    require_hash: bool = False
    grace_seconds: int = 0
    on_expiry: str = "deny"
    escalate: tuple[Escalation, ...] = ()
    votes: tuple[Vote, ...] = ()
    requested_at: datetime | None = None
    expires_at: datetime | None = None
    policy_snapshot: str | None = None
    job_hash: str | None = None
    round: int = 1
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    decided_via: str | None = None
    grace_until: datetime | None = None
    in_grace: bool = False
    reason: str | None = None
    note: str | None = None
    code: str | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was before somebody edited or refreshed it."""

    job_hash: str
    payload: Any = None
    policy_snapshot: str | None = None
    approval: Approval | None = None
    replaced_at: datetime | None = None
    replaced_by: str | None = None
    why: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One proposed action, and how far it got. `replayed` says that the answer was one given before."""

    id: str
    state: str
    job_hash: str
    topic: str = ""
    payload: Any = msgspec.UNSET  # where an answer leaves it out
    env: str | None = None
    channel: str | None = None
    labels: dict[str, str] = {}
    system_labels: dict[str, str] = {}
    risk: tuple[str, ...] = ()
    priority: str = "normal"
    target: Target | None = None
    evidence: tuple[Evidence, ...] = ()
    policy_snapshot: str | None = None
    decision: Decision | None = None
    approval: Approval | None = None
    grant_use: JobGrantUse | None = None
    submitted_by: str | None = None
    submitted_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    attempt: int = 0
    max_attempts: int | None = None
    fence: int = 0
    leased_by: str | None = None
    lease_expires_at: datetime | None = None
    not_before: datetime | None = None
    held_up: str | None = None
    checkpoint: Any = None
    finished_at: datetime | None = None
    run_id: str | None = None
    executor: str = "worker"
    result: Any = None
    result_text: str | None = None
    error: Any = None
    version: int | None = None
    revisions: tuple[Revision, ...] | msgspec.UnsetType = msgspec.UNSET  # as above
    replayed: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether nobody has to decide any more, and nobody may take the decision back."""
        is_in_grace = self.state == "PENDING" and self.approval is not None and self.approval.in_grace
        return self.state != "APPROVAL" and not is_in_grace

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.state not in UNFINISHED


class HeldJob(Job, frozen=True, kw_only=True):
    """A job that a worker holds: under `fence`, until `lease_expires_at`. `permit` proves it to tools.

    `checkpoint` is what the attempt before left behind. `downstream_key` is for the remote side of a gated call.
    """

    permit: str
    downstream_key: str | None = None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that a claim got."""

    jobs: tuple[HeldJob, ...] = ()


class Renewed(msgspec.Struct, frozen=True, kw_only=True):
    """A lease's new end, and a permit until then."""

    id: str
    state: str = "RUNNING"
    fence: int
    lease_expires_at: datetime
    permit: str
    attempt: int = 1


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a target."""

    actor: str
    version: str
    kind: str | None = None
    previous_version: str | None = None
    based_on: str | None = None
    summary: str = ""
    at: datetime | None = None
    conflict_id: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, or was refused."""

    action: str
    n: int | None = None
    id: str | None = None
    at: datetime | None = None
    actor: str | None = None
    subject: str | None = None
    outcome: str | None = None
    subject_version: int | None = None
    rule: str | None = None
    hash: str | None = None
    request_id: str | None = None
    details: dict[str, Any] = {}


class PolicyWarning(msgspec.Struct, frozen=True, kw_only=True):
    """What is allowed in a policy but may not be meant, and where."""

    path: str = ""
    reason: str = ""
    line: int = 0
    column: int = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, named by its content: `document` is its canonical form, `source` the text it came as.

    `warnings` are those of a policy that was just put in force.
    """

    snapshot: str
    document: Any = None
    source: str | None = None
    activated_at: datetime | None = None
    activated_by: str | None = None
    previous: str | None = None
    created_at: datetime | None = None
    created_by: str | None = None
    warnings: tuple[PolicyWarning, ...] = ()


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was asked before the one that matched, and why it did not."""

    rule: str
    why: str | None = None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a job, and why."""

    decision: str
    rule: str | None = None
    reason: str | None = None
    snapshot: str | None = None
    mode: str | None = None
    then: str | None = None
    approval: dict[str, Any] | None = None
    trail: tuple[Missed, ...] = ()
    failure: Failure | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a candidate policy would have treated differently."""

    job_id: str
    before: Decision
    after: Decision
    topic: str = ""
    differs: tuple[str, ...] = ()


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate policy would have changed for the jobs it was held against."""

    snapshot: str
    examined: int = 0
    unchanged: int = 0
    changes: tuple[Change, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service is alive, or ready for work."""

    status: str = "ok"
    version: str | None = None
    unreadable_records: int = 0
    clock_ahead_seconds: float = 0.0
    fence_epoch: int = 0
    fences_raised_at: datetime | None = None
    detail: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a workflow and the slot it holds until `slot_expires_at`; `replayed` as it was answered before.

    `fence` is told to whoever started it; to others it is 0.
    """

    run_id: str
    workflow: str
    state: str
    fence: int = 0
    ttl_seconds: int | float = 60
    slot_expires_at: datetime | None = None
    input: Any = None
    result: Any = None
    error: str = ""
    started_by: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    replayed: bool = False


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs a scope may have at once, and how many it has."""

    scope: str
    max_concurrent_runs: int
    active: int = 0
    set_by: str | None = None
    set_at: datetime | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits in force; the tenant's gate counts `active`, there are `running`, and `waiting` stand in line."""

    items: tuple[Limit, ...]
    active: int = 0
    running: int = 0
    waiting: int = 0
    next_cursor: str | None = None
