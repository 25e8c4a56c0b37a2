"""Limits, gates and runs.

A gate is the one record through which all starts of a tenant (or of one workflow) pass: it counts the runs
that hold a slot and keeps the line of those who wait. A run's slot is leased; by the clock of the decision a
run that stopped renewing has lost it, whether or not a sweep has noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record, micros

TENANT_SCOPE = "tenant"
RUNS_DEFAULT = 10


class RunState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


TRANSITIONS: Mapping[tuple[RunState, str], RunState] = {
    (RunState.RUNNING, "renew"): RunState.RUNNING,
    (RunState.RUNNING, "complete"): RunState.SUCCEEDED,
    (RunState.RUNNING, "fail"): RunState.FAILED,
    (RunState.RUNNING, "cancel"): RunState.CANCELLED,
    (RunState.RUNNING, "lose"): RunState.LOST,
}


class Limit(Record, frozen=True, kw_only=True):
    """How many runs a scope may have at once. The id is `tenant` or a workflow's."""

    max_concurrent_runs: int
    set_by: str
    set_at: datetime


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the line. It holds only while its waiter keeps coming back."""

    id: str
    workflow: str
    expires_at: datetime


class Gate(Record, frozen=True, kw_only=True):
    """How many runs hold a slot of this scope, how long they tend to, and (at the tenant's) who waits."""

    active: int = 0
    fence: int = 0
    hold_seconds: float = 0.0
    line: tuple[Ticket, ...] = ()

    def waiting_at(self, now: datetime) -> tuple[Ticket, ...]:
        """The line without those who stopped coming back."""
        return tuple(ticket for ticket in self.line if ticket.expires_at > now)


class Run(Record, frozen=True, kw_only=True):
    """One run of a workflow and the slot it holds."""

    workflow: str
    state: RunState
    fence: int
    ttl_seconds: int
    slot_expires_at: datetime
    input: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    started_by: str
    started_at: datetime
    ended_at: datetime | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether it still has its slot by this clock."""
        return self.state is RunState.RUNNING and now < self.slot_expires_at


LIMITS = Kind("limit", Limit, table="limits")
GATES = Kind("gate", Gate, table="gates")
RUNS = Kind(
    "run",
    Run,
    table="runs",
    columns={
        "workflow": lambda run: run.workflow,
        "state": lambda run: run.state.value,
        "slot_expires_at": lambda run: micros(run.slot_expires_at) if run.state is RunState.RUNNING else None,
    },
)


def workflow_scope(workflow: str) -> str:
    """The id of a workflow's gate, apart from the tenant's whatever the workflow is called."""
    return f"workflow:{workflow}"


def admission_topic(tenant: str) -> str:
    """What those who wait for a slot listen on."""
    return f"admission:{tenant}"
