"""Runs, the limits on how many there may be at once, and how starts of them ended."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.wire.fields import Body, Fence, Given, Local, Reason, Sometimes, Spelled, TtlSeconds


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a workflow. While it is `running` it holds a slot until `slot_expires_at`.

    `fence` is told only to the caller that started it.
    """

    run_id: str
    workflow: str
    state: str
    ttl_seconds: int | float = 60
    slot_expires_at: Given[datetime] = None
    input: Any = None
    result: Any = None
    error: str = ""
    started_by: Given[str] = None
    started_at: Given[datetime] = None
    ended_at: datetime | None = None
    fence: Sometimes[int] = 0
    replayed: Local[bool] = False  # whether the answer was one given before


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs a scope may have at once, and how many it has."""

    scope: str
    max_concurrent_runs: int
    active: int = 0
    set_by: str | None = None
    set_at: datetime | None = None


class ClearedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a scope had a limit of its own, which it no longer has."""

    scope: str
    cleared: bool


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits in force; the tenant's gate counts `active`, there are `running`, and `waiting` stand in line."""

    items: tuple[Limit, ...]
    active: int = 0
    running: int = 0
    waiting: int = 0
    next_cursor: str | None = None


class TrafficPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted in the step that begins at `at`."""

    at: datetime
    admitted: int = 0
    full_429: int = 0
    unavailable_503: int = 0
    policy_throttled_429: int = 0


class StartsOfWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """How starts of one workflow ended: admitted, refused as full, or not evaluated.

    `series` has the steps in which there were any, if steps were asked for.
    """

    workflow: str
    admitted: int
    full_429: int
    unavailable_503: int
    series: Sometimes[tuple[TrafficPoint, ...]] = ()


class ThrottlesOfTopic(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of one topic the policy throttled (429 `policy_throttled`)."""

    topic: str
    policy_throttled_429: int
    series: Sometimes[tuple[TrafficPoint, ...]] = ()


class AdmissionStats(msgspec.Struct, frozen=True, kw_only=True):
    """How starts ended within the window on all servers; of the others' last moments some may be missing.

    The sums and the `series`, which has every step, are of the whole tenant or of the one `name` that was asked for.
    """

    tenant: str
    window: str
    since: Given[datetime] = None
    admitted: int
    full_429: int
    unavailable_503: int
    policy_throttled_429: int = 0
    series: Sometimes[tuple[TrafficPoint, ...]] = ()
    workflows: tuple[StartsOfWorkflow, ...] = ()
    topics: Sometimes[tuple[ThrottlesOfTopic, ...]] = ()
    next_cursor: str | None = None


class StartRunBody(Body, frozen=True, kw_only=True):
    """`ttl_seconds` is how long the slot is kept without renewing; with `wait_seconds` the caller waits in line."""

    input: Spelled = None
    ttl_seconds: TtlSeconds = 60
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0


class SetLimitBody(Body, frozen=True, kw_only=True):
    max_concurrent_runs: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class RunFenceBody(Body, frozen=True, kw_only=True):
    """The run's fence, which its starter was given. The role `operate` needs none for the run of another caller."""

    fence: Fence | None = None


class CompleteRunBody(RunFenceBody, frozen=True, kw_only=True):
    result: Spelled = None


class FailRunBody(RunFenceBody, frozen=True, kw_only=True):
    error: Reason = ""


class CancelRunBody(RunFenceBody, frozen=True, kw_only=True):
    reason: Reason = ""
