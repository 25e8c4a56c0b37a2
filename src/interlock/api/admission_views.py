"""Runs and limits as the API shows them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.rooms.admission.model import Gate, Limit, Run


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, and how many runs hold a slot under it."""

    scope: str
    max_concurrent_runs: int
    active: int = 0
    set_by: str | None = None
    set_at: datetime | None = None


class ClearedView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the scope had a limit of its own, which it no longer has."""

    scope: str
    cleared: bool


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """Limits by scope. The tenant's gate counts `active`, of runs there are `running`; `waiting` stand in line."""

    items: list[LimitView]
    active: int
    running: int
    waiting: int
    next_cursor: str | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run. While it is `running` it holds a slot until `slot_expires_at`. `fence` is shown to its starter alone."""

    run_id: str
    workflow: str
    state: str
    ttl_seconds: int | float
    slot_expires_at: datetime
    input: msgspec.Raw
    result: msgspec.Raw
    error: str
    started_by: str
    started_at: datetime
    ended_at: datetime | None
    fence: int | msgspec.UnsetType = msgspec.UNSET


class StatsRow(msgspec.Struct, frozen=True, kw_only=True):
    workflow: str
    admitted: int
    full_429: int
    unavailable_503: int


class StatsView(msgspec.Struct, frozen=True, kw_only=True):
    """How starts ended within the window on all servers; of the others' last moments some may be missing."""

    tenant: str
    window: str
    admitted: int
    full_429: int
    unavailable_503: int
    workflows: list[StatsRow]


def limit_view(limit: Limit, gate: Gate | None) -> LimitView:
    return LimitView(
        scope=limit.id,
        max_concurrent_runs=limit.max_concurrent_runs,
        active=gate.active if gate else 0,
        set_by=limit.set_by,
        set_at=limit.set_at,
    )


def run_view(run: Run, seen_by: str, now: datetime | None = None) -> RunView:
    """A run as `seen_by` sees it; with `now`, one past its slot's time is shown as lost."""
    return RunView(
        run_id=run.id,
        workflow=run.workflow,
        state=(run.state_at(now) if now else run.state).value,
        fence=run.fence if seen_by == run.started_by else msgspec.UNSET,
        ttl_seconds=run.ttl_seconds,
        slot_expires_at=run.slot_expires_at,
        input=run.input,
        result=run.result,
        error=run.error,
        started_by=run.started_by,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )
