"""A job: one proposed action, what the policy and people decided about it, and its progress.

A worker holds a job by a lease with a fence. The fence grows with every claim and never shrinks; a call with an older
one is refused. `attempt` is the number of the attempt that runs or comes next.

An approval request says what must be decided, by whom and until when, with the votes so far. It is stored inside its
job's record, so that a job's state and its approval can never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from interlock.kernel.record import ColumnValue, Kind, Record, micros
from interlock.rooms.jobs import audience
from interlock.rooms.policy.action import RANKS, Action, Failure, Priority

# People see requests in the order in which they end; an urgent one is placed as if it ended this much sooner.
HEAD_STARTS: Mapping[Priority, timedelta] = {
    Priority.CRITICAL: timedelta(hours=24),
    Priority.HIGH: timedelta(hours=4),
    Priority.NORMAL: timedelta(),
    Priority.LOW: timedelta(),
}
# The same for a request that a workflow run waits for.
RUN_HEAD_START = timedelta(hours=1)
GROUP_MARK = "|"

_FOR_EVER = datetime(9999, 12, 31, tzinfo=UTC)


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


APPROVAL_TRANSITIONS: Mapping[tuple[ApprovalState, str], ApprovalState] = {
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


class EscalationStep(msgspec.Struct, frozen=True, kw_only=True):
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
    escalate: tuple[EscalationStep, ...] = ()
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

    `ends_by` is the end of the job itself, where an escalation could otherwise outlast it. Until `grace_until`,
    voters may take the decision back.
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
        return APPROVAL_TRANSITIONS[self.state, verb]

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
        return min([*map(self.opens_at, steps), self.ends_at]) if steps else self.ends_at

    def _is_open(self, step: EscalationStep, now: datetime) -> bool:
        return now >= self.opens_at(step)

    def opens_at(self, step: EscalationStep) -> datetime:
        """A step opens when its time has come, and at the latest when the request would expire."""
        return min(self.requested_at + timedelta(seconds=step.after_seconds), self.expires_at)


class LeaseEnd(StrEnum):
    """How a worker's hold on a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"


class JobLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's hold on a job, under the job's fence of that time.

    `retry_at` is when the job may be claimed again should the lease run out; None if this is the last
    attempt. It is settled when the lease is given or renewed, so that a claim needs no sweep to have run.
    `repeatable` is what the caller of a gated call said of it: it may run again after a crash.
    """

    worker: str
    claimed_at: datetime
    expires_at: datetime
    seconds: int | float
    retry_at: datetime | None = None
    ended: LeaseEnd | None = None
    repeatable: bool = False


class JobState(StrEnum):
    APPROVAL = "APPROVAL"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DENIED = "DENIED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


TRANSITIONS: Mapping[tuple[JobState, str], JobState] = {
    (JobState.APPROVAL, "approve"): JobState.PENDING,
    (JobState.APPROVAL, "reject"): JobState.DENIED,
    (JobState.APPROVAL, "deny"): JobState.DENIED,
    (JobState.APPROVAL, "release"): JobState.PENDING,
    (JobState.APPROVAL, "ask"): JobState.APPROVAL,
    (JobState.APPROVAL, "expire"): JobState.EXPIRED,
    (JobState.APPROVAL, "cancel"): JobState.CANCELLED,
    (JobState.EXPIRED, "ask"): JobState.APPROVAL,
    (JobState.EXPIRED, "release"): JobState.PENDING,
    (JobState.EXPIRED, "deny"): JobState.DENIED,
    (JobState.PENDING, "cancel"): JobState.CANCELLED,
    (JobState.PENDING, "expire"): JobState.EXPIRED,
    (JobState.PENDING, "deny"): JobState.DENIED,
    (JobState.PENDING, "ask"): JobState.APPROVAL,
    (JobState.PENDING, "take_back"): JobState.APPROVAL,
    (JobState.PENDING, "claim"): JobState.RUNNING,
    (JobState.PENDING, "answer"): JobState.SUCCEEDED,
    (JobState.RUNNING, "complete"): JobState.SUCCEEDED,
    (JobState.RUNNING, "release"): JobState.PENDING,
    (JobState.RUNNING, "requeue"): JobState.PENDING,
    (JobState.RUNNING, "give_up"): JobState.FAILED,
    (JobState.RUNNING, "cancel"): JobState.CANCELLED,
    (JobState.FAILED, "retry"): JobState.PENDING,
    (JobState.FAILED, "cancel"): JobState.CANCELLED,
    (JobState.FAILED, "settle_done"): JobState.SUCCEEDED,
    (JobState.FAILED, "settle_not_done"): JobState.PENDING,
    (JobState.PENDING, "doubt"): JobState.FAILED,
}

GRANTED_LABEL = "approval_granted"


class Executor(StrEnum):
    """Who carries a job out: any worker of its topic, or its submitter alone (the job of a gated call)."""

    WORKER = "worker"
    CALLER = "caller"


# A released job that no worker claims for this long is offered again, then at growing intervals.
UNCLAIMED_AFTER = timedelta(minutes=1)
UNCLAIMED_DOUBLINGS_MAX = 6


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something for the reviewer to look at."""

    title: str
    kind: str
    content: str | None = None
    url: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The policy's answer: the rule that matched (None: the default) and its decision.

    Under `mode: observe` the job is released whatever the policy says, and `observed` is what it said. With
    `failure`, the rule's expression could not be answered, which denies.
    """

    decision: str
    rule: str | None = None
    reason: str = ""
    observed: str | None = None
    failure: Failure | None = None


class StandingGrantRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of a standing grant that released a job: for exactly this hash, and for what was asked then."""

    grant_id: str
    use: int
    job_hash: str
    requirement: Requirement


class Revision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job as it was before an edit or a refresh."""

    action: Action
    job_hash: str
    policy_snapshot: str | None
    approval: Approval | None = None
    replaced_at: datetime
    replaced_by: str
    why: str = ""


class Job(Record, frozen=True, kw_only=True):
    """One proposed action. A question (`is_question`) is for people alone: no worker claims it.

    `result_text` is what could be kept of a result that is not JSON.
    """

    action: Action
    state: JobState
    job_hash: str
    policy_snapshot: str | None
    verdict: Verdict
    priority: Priority = Priority.NORMAL
    evidence: tuple[Evidence, ...] = ()
    submitted_by: str
    submitter_people: tuple[str, ...] = ()
    submitted_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    max_attempts: int = 3
    run_id: str | None = None
    is_question: bool = False
    executor: Executor = Executor.WORKER
    approval: Approval | None = None
    grant_use: StandingGrantRef | None = None
    system_labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    revisions: tuple[Revision, ...] = ()
    attempt: int = 0
    fence: int = 0
    lease: JobLease | None = None
    not_before: datetime | None = None
    held_up: str | None = None
    checkpoint: Any = None
    result: Any = None
    result_text: str | None = None
    error: Any = None
    finished_at: datetime | None = None
    offered: int = 0
    offered_at: datetime | None = None
    retried_by: str | None = None
    retried_at: datetime | None = None

    @property
    def is_intact(self) -> bool:
        """Whether the stored action still has the hash that was computed when it was written."""
        return self.action.hash(self.tenant) == self.job_hash

    @property
    def is_call(self) -> bool:
        """Whether it belongs to a gated call: only its submitter carries it out, and no worker is offered it."""
        return self.executor is Executor.CALLER

    @property
    def conflict_target(self) -> str:
        """What collisions over this job are about: its target, or else the job among those of its topic."""
        return self.action.target.key if self.action.target else f"job:{self.action.topic}/{self.id}"

    @property
    def decidable_until(self) -> datetime | None:
        """How long a repeat of its request must find this job rather than ask people again.

        The key of a gated call names its intent, which must not be carried out twice however much later.
        """
        if self.is_call:
            return _FOR_EVER
        return self.approval.ends_at if self.approval else None

    def is_over_at(self, now: datetime) -> bool:
        """Whether the job's own time is up, swept or not."""
        return self.expires_at is not None and now >= self.expires_at

    def state_at(self, now: datetime) -> JobState:
        """The state by the clock: a job not decided or begun in time is expired even if no sweep has run."""
        if self.state not in (JobState.APPROVAL, JobState.PENDING):
            return self.state
        asked = self.approval if self.state is JobState.APPROVAL else None
        undecided = asked is not None and asked.state_at(now) is ApprovalState.EXPIRED
        return JobState.EXPIRED if undecided or self.is_over_at(now) else self.state

    def is_in_grace_at(self, now: datetime) -> bool:
        """Whether people released it and may still take that back: until then no worker may take it."""
        approval = self.approval if self.state is JobState.PENDING else None
        return approval is not None and approval.is_in_grace_at(now)

    def due_at(self) -> datetime | None:
        """When a sweep must look at this job: its own end, its approval's end or next escalation."""
        if self.state is JobState.PENDING:
            return self.expires_at
        if self.state is not JobState.APPROVAL:
            return None
        waiting = self.approval.next_step_at() if self.approval else None
        if waiting is None or self.expires_at is None:
            return waiting or self.expires_at
        return min(waiting, self.expires_at)

    @property
    def ends_at(self) -> datetime | None:
        """When a request that waits for people is over, because it or its job expires; None if none waits."""
        if self.state is not JobState.APPROVAL or self.approval is None:
            return None
        return min(self.approval.ends_at, self.expires_at or _FOR_EVER)

    @property
    def released_at(self) -> datetime:
        """When it could first run: when it was approved or, without an approval, when it was submitted."""
        decided = self.approval.decided_at if self.approval else None
        return decided or self.submitted_at

    @property
    def runnable_at(self) -> datetime | None:
        """From when on a worker may claim it, as far as time goes; None if it is not waiting for a worker."""
        if self.is_question or self.is_call:
            return None
        if self.state is JobState.PENDING:
            return self.not_before or self.released_at
        if self.state is JobState.RUNNING and self.lease:
            return self.lease.retry_at
        return None

    @property
    def lease_until(self) -> datetime | None:
        """When the worker that holds it loses it, unless it renews."""
        return self.lease.expires_at if self.lease and self.state is JobState.RUNNING else None

    @property
    def offer_again_at(self) -> datetime | None:
        """When it should be offered again because no worker took it."""
        if self.state is not JobState.PENDING or self.is_question or self.is_call:
            return None
        since = self.offered_at or self.not_before or self.released_at
        return since + UNCLAIMED_AFTER * 2 ** min(self.offered, UNCLAIMED_DOUBLINGS_MAX)


def decide_by(ends_at: datetime | None, priority: Priority, run_id: str | None) -> datetime | None:
    """Where a request that ends then stands among those that wait for people; None if it does not wait."""
    if ends_at is None:
        return None
    return ends_at - HEAD_STARTS[priority] - (RUN_HEAD_START if run_id else timedelta())


def marked(groups: Iterable[str]) -> str:
    """Groups as one text, in which LIKE finds each of them between two marks; empty for none."""
    each = "".join(f"{group}{GROUP_MARK}" for group in dict.fromkeys(groups))
    return f"{GROUP_MARK}{each}" if each else ""


def _approval_state(job: Job) -> str | None:
    state = job.approval.state if job.approval else None
    return None if state is ApprovalState.WITHDRAWN else state


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def _values(job: Job) -> tuple[ColumnValue, ...]:
    target = job.action.target
    asked = job.approval if job.state is JobState.APPROVAL else None
    return (
        job.state, job.action.topic, _approval_state(job),
        _micros(job.due_at()), job.verdict.observed, RANKS[job.priority],
        _micros(job.runnable_at), _micros(job.lease_until), _micros(job.offer_again_at),
        target.key if target else None, target.version if target else None,
        _micros(decide_by(job.ends_at, job.priority, job.run_id)),
        marked(asked.groups_at(_FOR_EVER)) if asked else None,
    )  # fmt: skip


_COLUMNS = (
    "state", "topic", "approval_state",
    "due_at", "observed", "rank",
    "runnable_at", "lease_until", "offer_again_at",
    "target", "target_version",
    "decide_by", "deciders",
)  # fmt: skip
JOBS = Kind("job", Job, table="jobs", columns=_COLUMNS, values=_values)
# A room's kinds are found in its model.
DISCUSSIONS, AUDIENCES = audience.DISCUSSIONS, audience.AUDIENCES

# What the loop that advances workflow runs listens on.
ADVANCE_TOPIC = "workflow-runs"


def job_topic(tenant: str, job_id: str) -> str:
    """The topic that wakes callers who wait for one job."""
    return f"job:{tenant}:{job_id}"


def claims_topic(tenant: str, topic: str) -> str:
    """The name under which workers wait for jobs of a topic: the tenant's group, and the topic without a colon."""
    return f"{claims_group(tenant)}:{topic}"


def claims_group(tenant: str) -> str:
    """Where a tenant's workers wait in line."""
    return f"claims:{tenant}"
