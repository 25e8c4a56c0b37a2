"""Limits, gates and runs, and why a run is refused.

All starts of a tenant (or of one workflow) go through one record, its gate: it counts the runs that hold a slot and
keeps the queue of waiting callers. A run's slot is leased. A run that stopped renewing has lost its slot once the
lease expires by the clock of the decision, whether or not a sweep has noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from interlock.kernel.record import Kind, Record, micros
from interlock.kernel.refusal import Fault, Next, Refusal

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


class Waiter(msgspec.Struct, frozen=True, array_like=True):
    """One call that waits, as long as it keeps coming back."""

    id: str
    expires_at: datetime


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A place in the line. Repeats of one start share it; it is kept while any of them still waits."""

    id: str
    workflow: str
    waiters: tuple[Waiter, ...]

    def waits_at(self, now: datetime) -> bool:
        """Whether a caller still comes back for it."""
        return self.waiters[-1].expires_at > now or any(each.expires_at > now for each in self.waiters)


class Gate(Record, frozen=True, kw_only=True):
    """The state of one scope: how many runs hold a slot, the limit, how long slots are held, and the tenant's queue.

    The limit is kept here too, so that a command that locks the gate decides by the limit in force and no older
    one.
    """

    active: int = 0
    limit: int | None = None
    fence: int = 0
    hold_seconds: float = 0.0
    line: tuple[Ticket, ...] = ()

    def waiting_at(self, now: datetime) -> tuple[Ticket, ...]:
        """The queue without callers that stopped asking."""
        return tuple(ticket for ticket in self.line if ticket.waits_at(now))

    @property
    def most(self) -> int | None:
        """How many runs may hold a slot; None for a workflow that only its tenant limits."""
        return RUNS_DEFAULT if self.limit is None and self.id == TENANT_SCOPE else self.limit


class Run(Record, frozen=True, kw_only=True):
    """One run of a workflow and the slot it holds."""

    workflow: str
    state: RunState
    fence: int
    ttl_seconds: int | float
    slot_expires_at: datetime
    input: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    started_by: str
    started_at: datetime
    ended_at: datetime | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether it still has its slot at this time."""
        return self.state is RunState.RUNNING and now < self.slot_expires_at

    def state_at(self, now: datetime) -> RunState:
        """The state by the clock: a run past its slot's time is lost even if no sweep has run."""
        overdue = self.state is RunState.RUNNING and not self.holds_at(now)
        return RunState.LOST if overdue else self.state


class Tallied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the starts of one workflow ended; or, with a topic instead, how many of its jobs the policy throttled."""

    workflow: str = ""
    topic: str = ""
    admitted: int = 0
    full: int = 0
    unavailable: int = 0
    throttled: int = 0


class Tally(Record, frozen=True, kw_only=True):
    """What one server counted in the few seconds from `at` on. The id names the server and those seconds.

    `rolled` is the part of `rows` that the traffic sheets have, since `rolled_at`.
    """

    at: datetime
    rows: tuple[Tallied, ...]
    rolled: tuple[Tallied, ...] = ()
    rolled_at: datetime | None = None


Counts = tuple[int, int, int, int]  # admitted, full, unavailable, throttled


class TrafficSheet(Record, frozen=True, kw_only=True):
    """What was counted of one workflow, one topic or the whole tenant in the hour (or day) from `at` on.

    `slots` are its minutes (or hours) with something to count, by their number.
    """

    shelf: str
    name: str
    at: datetime
    forget_at: datetime
    slots: dict[int, Counts]


LIMITS = Kind("limit", Limit, table="limits")
TALLIES = Kind(
    "admission_tally",
    Tally,
    table="admission_tallies",
    columns=("at", "rolled_at"),
    values=lambda tally: (micros(tally.at), micros(tally.rolled_at) if tally.rolled_at else None),
)
TRAFFIC_SHEETS = Kind(
    "traffic_sheet",
    TrafficSheet,
    table="traffic_sheets",
    columns=("shelf", "name", "at", "forget_at"),
    values=lambda sheet: (sheet.shelf, sheet.name, micros(sheet.at), micros(sheet.forget_at)),
)
GATES = Kind("gate", Gate, table="gates")
RUNS = Kind(
    "run",
    Run,
    table="runs",
    columns=("workflow", "state", "slot_expires_at"),
    values=lambda run: (
        run.workflow,
        run.state,
        micros(run.slot_expires_at) if run.state is RunState.RUNNING else None,
    ),
)


def workflow_scope(workflow: str) -> str:
    """The id of a workflow's gate, apart from the tenant's whatever the workflow is called."""
    return f"workflow:{workflow}"


def gate_id(scope: str) -> str:
    """The gate of a limit's scope."""
    return scope if scope == TENANT_SCOPE else workflow_scope(scope)


def place_topic(tenant: str, ticket: str) -> str:
    """The wake-up that the caller at this place in the queue waits for."""
    return f"admission:{tenant}:{ticket}"


_WAIT_SECONDS = 30


class GateFull(Refusal):
    """There is no free slot. `waiting` callers are in line ahead of this one."""

    def __init__(
        self,
        *,
        scope: str,
        workflow: str,
        active: int,
        limit: int,
        waiting: int,
        retry_after_seconds: float,
        is_line_full: bool = False,
    ) -> None:
        ahead = f", {waiting} waiting" if waiting else ""
        super().__init__(
            f"{active} of {limit} runs of {scope} are active{ahead}; wait in line, or retry in "
            f"{retry_after_seconds:.1f} s"
        )
        if not is_line_full:
            self.next = Next("start_run", {"workflow": workflow, "wait_seconds": _WAIT_SECONDS})
        self.scope, self.active, self.limit, self.waiting = scope, active, limit, waiting
        self.retry_after_seconds = retry_after_seconds
        self.is_line_full = is_line_full


class GateUnavailable(Fault):
    """The gate could not be evaluated. Nothing was created."""


class RunFenceStale(Refusal):
    def __init__(self, run_id: str, state: str) -> None:
        super().__init__(
            f"run {run_id} is {state}, and this fence does not hold it. Stop, and start a new run"
        )
        self.state = state


class RunOver(Refusal):
    def __init__(self, run_id: str, state: str, verb: str) -> None:
        super().__init__(f"run {run_id} is {state}, so there is nothing to {verb}; start a new run")
        self.state = state
