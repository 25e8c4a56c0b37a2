"""Jobs, what policy and people said of them, and what a worker holds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from interlock.wire.fields import (
    Body,
    Duration,
    Fence,
    Given,
    Local,
    Number,
    Outcome,
    Reason,
    Sometimes,
    Spelled,
    TargetKey,
    Text,
    TextOrList,
    Topic,
)

UNFINISHED = frozenset({"APPROVAL", "PENDING", "RUNNING"})


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rule's expression could not be answered about a job; `field` is what it could not read, if known."""

    expression: str = ""
    why: str = ""
    field: Sometimes[str | None] = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said of a job; `rule` is null where the policy's default decided.

    Under `mode: observe` the job was released, and `observed` is what would have happened to it. With `failure`, the
    rule's expression could not be answered, which denies.
    """

    rule: str | None = None
    decision: str
    reason: Given[str] = None
    observed: str | None = None
    failure: Failure | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job would change, and the version its submitter saw."""

    key: str
    version: Sometimes[str | None] = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something for the reviewer to look at: text, or a link."""

    title: str
    kind: str
    content: Sometimes[str | None] = None
    url: Sometimes[str | None] = None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One person's yes. `groups` are those they were in when they said it."""

    principal: str
    at: Given[datetime] = None
    reason: Given[str] = None
    note: Given[str] = None
    groups: tuple[str, ...] = ()
    via: str = "api"


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """Who may decide, too, after a time."""

    after_seconds: int
    groups: tuple[str, ...] = ()


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """People's decision on a job: `pending`, `approved`, `rejected`, `expired` or `withdrawn`.

    Empty `groups` means that any person with the role `review` may decide. While it is `in_grace`, until
    `grace_until`, its voters may withdraw, and nobody may claim the job.
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
    requested_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    policy_snapshot: Given[str] = None
    job_hash: Given[str] = None
    round: int = 1
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    decided_via: str | None = None
    grace_until: datetime | None = None
    in_grace: bool = False
    reason: Given[str] = None
    note: Given[str] = None
    code: str | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was before it was edited or refreshed."""

    payload: Any = None
    job_hash: str
    policy_snapshot: str | None = None
    approval: Approval | None = None
    replaced_at: Given[datetime] = None
    replaced_by: Given[str] = None
    why: Given[str] = None


class JobGrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a standing grant that released a job. `groups`: its issuer was in one of them, as the policy asked."""

    grant_id: str
    use: int
    groups: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One proposed action, and how far it got.

    `labels` are as submitted with those that Interlock added (`system_labels`) on top. `executor` is who carries it
    out: any "worker", or only the "caller" that submitted it. `result_text` is what was kept of a result that is not
    JSON. `fence` is told to the job's holder, or its last one. `revisions` are the versions it had before: of one
    job that is read, edited or refreshed. Others leave them out.
    """

    id: str
    state: str
    topic: str = ""
    env: Given[str] = None
    channel: Given[str] = None
    labels: dict[str, str] = {}
    system_labels: dict[str, str] = {}
    risk: tuple[str, ...] = ()
    payload: Any = msgspec.UNSET
    target: Target | None = None
    evidence: tuple[Evidence, ...] = ()
    priority: str = "normal"
    job_hash: str
    policy_snapshot: str | None = None
    decision: Given[Decision] = None
    approval: Approval | None = None
    grant_use: JobGrantUse | None = None
    submitted_by: Given[str] = None
    submitted_at: Given[datetime] = None
    updated_at: Given[datetime] = None
    expires_at: datetime | None = None
    max_attempts: Given[int] = None
    run_id: str | None = None
    executor: str = "worker"
    version: Given[int] = None
    attempt: int = 0
    leased_by: str | None = None
    lease_expires_at: datetime | None = None
    not_before: datetime | None = None
    held_up: str | None = None
    checkpoint: Any = None
    result: Any = None
    result_text: str | None = None
    error: Any = None
    finished_at: datetime | None = None
    fence: Sometimes[int] = 0
    revisions: Sometimes[tuple[Revision, ...] | msgspec.UnsetType] = msgspec.UNSET
    replayed: Local[bool] = False  # whether the answer was one given before

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

    `checkpoint` is what the attempt before left behind. `downstream_key` is for the remote side of a gated call: the
    same for every attempt.
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
    attempt: int = 1
    lease_expires_at: datetime
    permit: str


Label = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.\-/]+$(?!\n)")]
Executor = Annotated[
    Literal["worker", "caller"],
    msgspec.Meta(
        description="Who carries a job out: any worker of its topic, or its submitter alone (the job of a gated call)."
    ),
]
TopicGlob = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
HoldSeconds = Annotated[int, msgspec.Meta(ge=1, le=3600)] | Annotated[float, msgspec.Meta(gt=0, le=3600)]


class JobTargetBody(Body, frozen=True, kw_only=True):
    """What the action changes, and the version of it that the proposal was made for: a word or a number."""

    key: TargetKey
    version: Text | Number | None = None


class EvidenceBody(Body, frozen=True, kw_only=True):
    """Something for the reviewer to look at."""

    title: Text
    kind: Text
    content: Annotated[str, msgspec.Meta(max_length=200_000)] | None = None
    url: Annotated[str, msgspec.Meta(max_length=2000)] | None = None


class PeopleBody(Body, frozen=True, kw_only=True):
    """Ask people to decide, even where the policy would not ask them. A rule may narrow the groups."""

    groups: Annotated[list[Text], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=list[str])


class SubmitBody(Body, frozen=True, kw_only=True):
    """A proposed action. With `approval`, people decide also where the policy alone would release it.

    With `executor` "caller" only its submitter may claim it, by its id, and no worker is offered it.
    """

    topic: Topic
    payload: Spelled = msgspec.field(default_factory=dict[str, Any])
    env: Text = ""
    channel: Text = ""
    labels: Annotated[dict[Label, Text], msgspec.Meta(max_length=64)] = msgspec.field(
        default_factory=dict[str, str]
    )
    risk: Annotated[list[Text], msgspec.Meta(max_length=32)] | TextOrList = msgspec.field(
        default_factory=list[str]
    )
    priority: Literal["low", "normal", "high", "critical"] = "normal"
    target: JobTargetBody | None = None
    evidence: Annotated[list[EvidenceBody], msgspec.Meta(max_length=20)] = msgspec.field(
        default_factory=list[EvidenceBody]
    )
    expires_in: Duration | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    run_id: Text | None = None
    approval: PeopleBody | None = None
    executor: Executor = "worker"


class CancelJobBody(Body, frozen=True, kw_only=True):
    reason: Reason = ""


class ClaimJobsBody(Body, frozen=True, kw_only=True):
    """Topics are exact or globs (`finance.payment.*`, `finance.**`)."""

    topics: Annotated[list[TopicGlob], msgspec.Meta(min_length=1, max_length=32)]
    max: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    lease_seconds: HoldSeconds = 30
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0


class ClaimJobBody(Body, frozen=True, kw_only=True):
    """`repeatable` says of a gated call that it may run again after a crash; else a crash leaves it in doubt."""

    lease_seconds: HoldSeconds = 30
    repeatable: bool = False


class RenewJobBody(Body, frozen=True, kw_only=True):
    fence: Fence
    checkpoint: Spelled = None


class CompleteJobBody(Body, frozen=True, kw_only=True):
    """`result_text` is for a result that is not JSON: what people are shown of it."""

    fence: Fence
    result: Spelled = None
    result_text: Annotated[str, msgspec.Meta(max_length=4000)] | None = None


class FailJobBody(Body, frozen=True, kw_only=True):
    """`error` is a text or an object; a retryable failure is tried again while attempts last."""

    fence: Fence
    error: Spelled
    retryable: bool = True


class ReleaseJobBody(Body, frozen=True, kw_only=True):
    fence: Fence
    checkpoint: Spelled = None


class ReconcileJobBody(Body, frozen=True, kw_only=True):
    """What the remote side says of a call in doubt, and how you know. `result` is what a repeat returns."""

    outcome: Outcome
    evidence: Spelled
    result: Spelled = None


class RetryJobBody(Body, frozen=True, kw_only=True):
    reason: Annotated[str, msgspec.Meta(max_length=4000, pattern=r"^[^\u0000]*$")] = ""
