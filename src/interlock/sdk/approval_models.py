"""What the service says of requests for people's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.sdk.models import Approval, Evidence, Job, Touch, Vote


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What moved since an approval was asked for; the request's `on_approve` tells whether it is in the way."""

    policy_changed: bool = False
    job_changed: bool = False
    target_changed: bool = False
    submitted_under: str | None = None
    current_snapshot: str | None = None
    target_version: str | None = None


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said of a request. An `ask` is `open` until its submitter comments or it is edited."""

    id: str
    kind: str
    by: str
    at: datetime | None = None
    text: str = ""
    via: str = "api"
    open: bool = False


class ApprovalItem(Job, frozen=True, kw_only=True):
    """A job in the list of those that people were asked about.

    `votes_needed` is how many more must agree, without votes that no longer count; None once it waits for nobody.
    """

    job_id: str = ""
    votes_needed: int | None = None


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a reviewer needs to decide. `touches` are of what the job would change, `people_able` may decide."""

    job_id: str
    state: str
    job: Job
    approval: Approval
    payload: Any = None
    job_hash: str | None = None
    rule: str | None = None
    votes: tuple[Vote, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    drift: Drift = Drift()
    touches: tuple[Touch, ...] = ()
    votes_needed: int | None = None
    people_able: int | None = None
    on_approve: str | None = None
    comments: tuple[Comment, ...] = ()
    grace_until: datetime | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one approve or reject; `votes` counts the people whose yes counts, or did when it was decided.

    `outcome` is `approved`, `rejected`, `vote_recorded`, `already_approved`, `already_rejected` or, of a vote
    that was taken back, `withdrawn`. Until `grace_until` whoever voted may withdraw.
    """

    outcome: str
    state: str
    job_id: str | None = None
    job_hash: str | None = None
    decision_id: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    votes: int | None = None
    quorum: int | None = None
    grace_until: datetime | None = None
