"""Effects: actions that happen at most once, and what became of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import (
    Body,
    Fence,
    Given,
    Number,
    Outcome,
    Sometimes,
    Spelled,
    TargetKey,
    Text,
    TtlSeconds,
    Version,
)
from interlock.wire.grants import ExecutionId, GrantId, Groups, Task


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is too large to be shown here; read it at `pointer`, or with `get_effect_result`."""

    digest: str
    size: int
    pointer: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Who said what had become of an effect, and how they knew."""

    outcome: str
    by: Given[str] = None
    at: Given[datetime] = None
    evidence: Any = None


class GrantUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a grant that permits an effect."""

    id: str
    task: str
    use: int = 0


class LeaseUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that an effect was begun under. `fence` is told only to the caller that began the effect."""

    id: str
    fence: Sometimes[int] = 0
    resource: str = ""
    session: str = ""


class TargetUsed(msgspec.Struct, frozen=True, kw_only=True):
    """What an effect changes, and the version it was begun for."""

    key: str
    version: Given[str] = None


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One action and what became of it: `IN_PROGRESS`, `COMMITTED`, `FAILED` or `AMBIGUOUS`, by the clock.

    `downstream_key` is the same for every attempt: pass it to the remote side. `replayed` says that it was
    done before, so that there is nothing to do. `fence` is told only to the caller that began it.
    """

    action_id: str
    state: str
    fence: Sometimes[int] = 0
    downstream_key: str = ""
    request_hash: str = ""
    begun_by: Given[str] = None
    first_begun_at: Given[datetime] = None
    begun_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    ended_at: datetime | None = None
    result: Any = None
    stored_result: StoredResult | None = None
    error: Any = None
    doubt: str | None = None
    job_id: str | None = None
    job_hash: str | None = None
    lease: LeaseUsed | None = None
    target: TargetUsed | None = None
    grant: GrantUsed | None = None
    resolved: Resolved | None = None
    replayed: bool = False


class EffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result of an effect."""

    digest: str | None = None
    size: int = 0
    result: Any = None


RequestHash = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=r"^[\u0021-\u007e]+$(?!\n)",
        description="Visible ASCII characters, such as sha256:….",
    ),
]


class EffectLeaseBody(Body, frozen=True, kw_only=True):
    """The lease under which it is done, and its fence. One that was acquired with a `session` takes it here too."""

    id: Text
    fence: Fence
    session: Text = ""


class EffectTargetBody(Body, frozen=True, kw_only=True):
    """What it changes, and the version it was prepared for."""

    key: TargetKey
    version: Version | Number


class EffectGrantBody(Body, frozen=True, kw_only=True):
    """The permission to do it: one use of a grant for `task` that fits `args`, consumed if the effect begins.

    `grant_id` names the grant, `signed` asks for a signed one, `groups` for one by a person in one of them.
    `execution_id` is that of a claim made before, whose use no effect has begun under yet; without it the action's own
    id stands for it. With `claimed_before` that use will do and no other is consumed.
    """

    task: Task
    args: Spelled = msgspec.field(default_factory=dict[str, Any])
    execution_id: ExecutionId | None = None
    grant_id: GrantId | None = None
    signed: bool = False
    groups: Groups = msgspec.field(default_factory=list[str])
    claimed_before: bool = False


class BeginEffectBody(Body, frozen=True, kw_only=True):
    """`request_hash` names what would be done: another request under the same id is refused.

    After `ttl_seconds` without commit or fail the outcome is unknown.
    """

    request_hash: RequestHash
    job_id: Text | None = None
    permit: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    lease: EffectLeaseBody | None = None
    target: EffectTargetBody | None = None
    grant: EffectGrantBody | None = None
    ttl_seconds: TtlSeconds = 60


class CommitEffectBody(Body, frozen=True, kw_only=True):
    fence: Fence
    result: Spelled = None


class FailEffectBody(Body, frozen=True, kw_only=True):
    """`safe_to_retry` says that it surely did not happen; if nobody can tell, it is ambiguous."""

    fence: Fence
    error: Spelled
    safe_to_retry: bool = False


class ResolveEffectBody(Body, frozen=True, kw_only=True):
    """What happened, and how you know: a text or an object. `result` is what a replay returns."""

    outcome: Outcome
    evidence: Spelled
    result: Spelled = None
