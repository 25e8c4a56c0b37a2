"""Policies, and what they say or would say of jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import Body, Given, Sometimes, Text
from interlock.wire.identity import PrincipalKind
from interlock.wire.jobs import Failure, SubmitBody


class PolicyWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a policy's text, and where it stands."""

    path: str = ""
    reason: str = ""
    line: int = 0
    column: int = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, named by its content: `document` is its canonical form, `source` the text it came as.

    Of the policy in force, `activated_at`, `activated_by` and `previous` say since when; without one, everything is
    denied and they are null. One that was kept says `created_at` and `created_by` instead. `warnings` are those of a
    policy that was just put in force: what is allowed in it but may not be meant.
    """

    snapshot: str
    document: Any = None
    source: Given[str] = None
    activated_at: Sometimes[datetime | None] = None
    activated_by: Sometimes[str | None] = None
    previous: Sometimes[str | None] = None
    created_at: Sometimes[datetime | None] = None
    created_by: Sometimes[str | None] = None
    warnings: Sometimes[tuple[PolicyWarning, ...]] = ()


class RequirementStep(msgspec.Struct, frozen=True, kw_only=True):
    """From `after` seconds on, these groups may decide too."""

    after: int
    groups: tuple[str, ...] = ()


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """What people must do: how many, who, and within `expires_in` seconds. No groups: any reviewer.

    For `grace` seconds after the deciding yes it may be taken back, and nobody may carry the job out.
    """

    quorum: int = 1
    groups: tuple[str, ...] = ()
    self_approval: bool = False
    expires_in: int = 86_400
    on_expiry: str = "deny"
    escalate: tuple[RequirementStep, ...] = ()
    binding: str = "strict"
    require_hash: bool = False
    grace: int = 0


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was asked before the one that matched, and why it did not match."""

    rule: str
    why: Given[str] = None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a job, and why: the rule that matched, and every earlier one with why it did not.

    With `failure`, the rule's expression could not be answered about this job, which denies it.
    """

    decision: str
    rule: str | None = None
    reason: Given[str] = None
    snapshot: Given[str] = None
    mode: Given[str] = None
    approval: Requirement | None = None
    then: str | None = None
    trail: tuple[Missed, ...] = ()
    failure: Failure | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What was or would be decided. With `failure`, the rule's expression could not be answered, which denies."""

    decision: str
    rule: str | None = None
    failure: Failure | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a candidate policy would have treated differently.

    `differs` names in what: `decision`, `rule`, what is asked of people, as a policy spells it (`quorum`, …), or
    `failure` where the candidate denies it too, but because a rule's expression fails on it.
    """

    job_id: str
    topic: str = ""
    before: Said
    after: Said
    differs: tuple[str, ...] = ()


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate policy would have changed for the jobs it was compared with.

    `warnings` are of its text: what is allowed in it but may not be meant. `next_cursor` continues with older jobs.
    """

    snapshot: str
    examined: int = 0
    unchanged: int = 0
    changes: tuple[Change, ...] = ()
    warnings: tuple[PolicyWarning, ...] = ()
    next_cursor: str | None = None


class RollbackBody(Body, frozen=True, kw_only=True):
    snapshot: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class ActorBody(Body, frozen=True, kw_only=True):
    """On whose behalf to ask; the caller if left out.

    A field that is left out is that of the principal with this name. If there is none, it counts as an agent
    without an owner.
    """

    id: Text
    kind: PrincipalKind | msgspec.UnsetType = msgspec.UNSET
    groups: Annotated[list[Text], msgspec.Meta(max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    owner: Text | msgspec.UnsetType | None = msgspec.UNSET


class EvaluateBody(SubmitBody, frozen=True, kw_only=True):
    """A job that might be submitted. With `policy`, that policy is asked instead of the one in force."""

    actor: ActorBody | None = None
    policy: Any = None


class SimulateBody(Body, frozen=True, kw_only=True):
    """A candidate policy, as text or as an object, asked about the last jobs, or about older ones from `cursor` on."""

    policy: Any
    last: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    cursor: Annotated[str, msgspec.Meta(max_length=255)] | None = None
