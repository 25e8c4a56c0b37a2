"""Admission over HTTP: limits, runs and their slots, and how starts ended.

429 means that the gate was evaluated and is full; 503 that it could not be evaluated. Neither creates anything.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.admission import queries
from interlock.admission.model import RUNS_DEFAULT, TENANT_SCOPE, Limit, Run, RunState, admission_topic
from interlock.admission.refusals import GateFull, GateUnavailable
from interlock.admission.rules import EndRun, LeaveLine, RenewRun, SetLimit, StartRun
from interlock.api.jobs import READERS, Reason
from interlock.api.listing import Page, PageQuery
from interlock.api.operations import Answer, Body, Operation, Query, Reply
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.codec.canonical import canonical
from interlock.codec.durations import DurationText, seconds_of
from interlock.identity.refusals import NotFound
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Fault, LockBusy, StoreUnavailable
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

TTL_SECONDS_DEFAULT = 60
_POLL_SECONDS = 1.0

Workflow = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.:\-]+$")]
Fence = Annotated[int, msgspec.Meta(ge=0)]


class LimitBody(Body, frozen=True, kw_only=True):
    max_concurrent_runs: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class StartBody(Body, frozen=True, kw_only=True):
    """`ttl_seconds` is how long the slot is kept without renewing; with `wait_seconds` the caller waits in line."""

    input: Any = None
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = TTL_SECONDS_DEFAULT
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0


class FenceBody(Body, frozen=True, kw_only=True):
    fence: Fence


class CompleteBody(FenceBody, frozen=True, kw_only=True):
    result: Any = None


class FailBody(FenceBody, frozen=True, kw_only=True):
    error: Reason = ""


class CancelBody(Body, frozen=True, kw_only=True):
    """An operator may cancel without a fence."""

    fence: Fence | None = None
    reason: Reason = ""


class RunsQuery(PageQuery, frozen=True, kw_only=True):
    state: RunState | None = None
    workflow: Workflow | None = None


class StatsQuery(Query, frozen=True, kw_only=True):
    window: DurationText = "1h"


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    scope: str
    max_concurrent_runs: int
    set_by: str | None = None
    set_at: datetime | None = None


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    items: list[LimitView]
    next_cursor: str | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run. While it is `running` it holds a slot until `slot_expires_at`."""

    run_id: str
    workflow: str
    state: str
    fence: int
    ttl_seconds: int
    slot_expires_at: datetime
    input: msgspec.Raw
    result: msgspec.Raw
    error: str
    started_by: str
    started_at: datetime
    ended_at: datetime | None


class StatsRow(msgspec.Struct, frozen=True, kw_only=True):
    workflow: str
    admitted: int
    full_429: int
    unavailable_503: int


class StatsView(msgspec.Struct, frozen=True, kw_only=True):
    """How starts ended on this server within the window."""

    tenant: str
    window: str
    admitted: int
    full_429: int
    unavailable_503: int
    workflows: list[StatsRow]


async def set_limit(call: Asked[None, LimitBody]) -> Answer:
    command = SetLimit(
        caller=caller_of(call),
        scope=call.path["scope"],
        max_concurrent_runs=call.body.max_concurrent_runs,
    )
    return await decide(call, command, lambda limit: Reply(200, _limit_view(limit)))


async def limits(call: Asked[PageQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_limits(
        call.services.store, call.caller.tenant, after=query.cursor, limit=query.limit
    )
    items = [_limit_view(each) for each in found]
    if query.cursor is None and not any(item.scope == TENANT_SCOPE for item in items):
        items.insert(0, LimitView(scope=TENANT_SCOPE, max_concurrent_runs=RUNS_DEFAULT))
    cursor = found[-1].id if len(found) == query.limit else None
    return Reply(200, LimitsView(items=items, next_cursor=cursor))


async def start(call: Asked[None, StartBody]) -> Answer:
    stats, tenant, workflow = call.services.admission_stats, call.caller.tenant, call.path["workflow"]
    try:
        answer = await _start_or_wait(call)
    except GateFull:
        stats.count(tenant, workflow, "full")
        raise
    except Fault as fault:
        stats.count(tenant, workflow, "unavailable")
        if isinstance(fault, LockBusy | StoreUnavailable):
            raise GateUnavailable(
                f"the gate could not be evaluated: {fault.detail}",
                retry_after_seconds=fault.retry_after_seconds,
            ) from fault
        raise
    stats.count(tenant, workflow, "admitted")
    return answer


async def _start_or_wait(call: Asked[None, StartBody]) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever a slot may have come free."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + call.body.wait_seconds
    command = _start_command(call)
    with call.services.kernel.wakes.subscribe(admission_topic(call.caller.tenant)) as woken:
        while True:
            try:
                return await decide(call, command, lambda run: Reply(201, _run_view(run)))
            except GateFull:
                left = deadline - loop.time()
                if left <= 0:
                    await _leave(call, command)
                    raise
                await woken.wait(min(left, _POLL_SECONDS))


def _start_command(call: Asked[None, StartBody]) -> StartRun:
    body = call.body
    return StartRun(
        caller=caller_of(call),
        workflow=call.path["workflow"],
        run_id=new_id("run"),
        ttl_seconds=body.ttl_seconds,
        input=msgspec.Raw(canonical(body.input)),
        ticket=_ticket(call) if body.wait_seconds > 0 else None,
    )


def _ticket(call: Asked[None, StartBody]) -> str:
    """A repeat under the same idempotency key keeps its place in line."""
    if call.idempotency_key is None:
        return new_id("tkt")
    scope = "\0".join((call.caller.principal, call.path["workflow"], call.idempotency_key))
    return f"tkt_{hashlib.sha256(scope.encode()).hexdigest()[:32]}"


async def _leave(call: Asked[None, StartBody], command: StartRun) -> None:
    if command.ticket is not None:
        await call.services.kernel.run(LeaveLine(caller=command.caller, ticket=command.ticket))


async def renew(call: Asked[None, FenceBody]) -> Answer:
    command = RenewRun(caller=caller_of(call), run_id=call.path["run_id"], fence=call.body.fence)
    return await decide(call, command, lambda run: Reply(200, _run_view(run)))


async def complete(call: Asked[None, CompleteBody]) -> Answer:
    result = msgspec.Raw(canonical(call.body.result))
    return await _end(call, "complete", call.body.fence, result=result)


async def fail(call: Asked[None, FailBody]) -> Answer:
    return await _end(call, "fail", call.body.fence, error=call.body.error)


async def cancel(call: Asked[None, CancelBody]) -> Answer:
    return await _end(call, "cancel", call.body.fence, error=call.body.reason)


async def _end(call: Asked[None, Any], verb: str, fence: int | None, **outcome: Any) -> Answer:
    run = await _read(call)
    command = EndRun(
        caller=caller_of(call), run_id=run.id, workflow=run.workflow, verb=verb, fence=fence, **outcome
    )
    return await decide(call, command, lambda ended: Reply(200, _run_view(ended)))


async def read(call: Asked[None, None]) -> Reply:
    return Reply(200, _run_view(await _read(call)))


async def listed(call: Asked[RunsQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_runs(
        call.services.store,
        call.caller.tenant,
        state=query.state,
        workflow=query.workflow,
        before=query.cursor,
        limit=query.limit,
    )
    return Reply(200, Page(items=[_run_view(run) for run in found.items], next_cursor=found.next_cursor))


async def stats(call: Asked[StatsQuery, None]) -> Reply:
    counted = call.services.admission_stats.of(call.caller.tenant, seconds_of(call.query.window))
    rows = [
        StatsRow(
            workflow=workflow,
            admitted=row["admitted"],
            full_429=row["full"],
            unavailable_503=row["unavailable"],
        )
        for workflow, row in sorted(counted.items())
    ]
    return Reply(
        200,
        StatsView(
            tenant=call.caller.tenant,
            window=call.query.window,
            admitted=sum(row.admitted for row in rows),
            full_429=sum(row.full_429 for row in rows),
            unavailable_503=sum(row.unavailable_503 for row in rows),
            workflows=rows,
        ),
    )


async def _read(call: Asked[Any, Any]) -> Run:
    run = await queries.read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if run is None:
        raise NotFound("run", call.path["run_id"])
    return run


def _limit_view(limit: Limit) -> LimitView:
    return LimitView(
        scope=limit.id,
        max_concurrent_runs=limit.max_concurrent_runs,
        set_by=limit.set_by,
        set_at=limit.set_at,
    )


def _run_view(run: Run) -> RunView:
    return RunView(
        run_id=run.id,
        workflow=run.workflow,
        state=run.state.value,
        fence=run.fence,
        ttl_seconds=run.ttl_seconds,
        slot_expires_at=run.slot_expires_at,
        input=run.input,
        result=run.result,
        error=run.error,
        started_by=run.started_by,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )


_TAG = "Admission"
_RUN_ID = {"run_id": "The id that starting the run returned."}
_STARTERS = ("submit", "work", "operate", "admin")
_OWN = ("fence_stale", "not_actionable")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="set_limit", method="PUT", path="/api/v1/limits/{scope}", tag=_TAG, roles=("operate", "admin"),
        parameters={"scope": "`tenant`, or a workflow's id."}, summary="Change how many runs may be active",
        body=LimitBody, answers={200: LimitView}, answer=set_limit,
    ),
    Operation(
        id="list_limits", method="GET", path="/api/v1/limits", tag=_TAG, roles=READERS,
        summary="Limits by scope", query=PageQuery, answers={200: LimitsView}, answer=limits,
    ),
    Operation(
        id="start_run", method="POST", path="/api/v1/workflows/{workflow}/runs", tag=_TAG, roles=_STARTERS,
        parameters={"workflow": "The workflow's id."}, summary="Start a run if there is room",
        description="429: evaluated and full. 503: could not be evaluated. Neither creates anything.",
        body=StartBody, answers={201: RunView}, answer=start,
        problems=("max_concurrent_runs", "admission_unavailable"),
    ),
    Operation(
        id="list_runs", method="GET", path="/api/v1/workflow-runs", tag=_TAG, roles=READERS,
        summary="Runs, newest first", query=RunsQuery, answers={200: Page[RunView]}, answer=listed,
    ),
    Operation(
        id="get_run", method="GET", path="/api/v1/workflow-runs/{run_id}", tag=_TAG, roles=READERS,
        parameters=_RUN_ID, summary="Read a run", answers={200: RunView}, answer=read,
    ),
    Operation(
        id="renew_run", method="POST", path="/api/v1/workflow-runs/{run_id}/renew", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="Keep the slot for another period", body=FenceBody,
        answers={200: RunView}, answer=renew, problems=_OWN,
    ),
    Operation(
        id="complete_run", method="POST", path="/api/v1/workflow-runs/{run_id}/complete", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="End a run well and free its slot", body=CompleteBody,
        answers={200: RunView}, answer=complete, problems=_OWN,
    ),
    Operation(
        id="fail_run", method="POST", path="/api/v1/workflow-runs/{run_id}/fail", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="End a run badly and free its slot", body=FailBody,
        answers={200: RunView}, answer=fail, problems=_OWN,
    ),
    Operation(
        id="cancel_run", method="POST", path="/api/v1/workflow-runs/{run_id}/cancel", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="Stop a run and free its slot", body=CancelBody,
        answers={200: RunView}, answer=cancel, problems=_OWN,
    ),
    Operation(
        id="admission_stats", method="GET", path="/api/v1/admission/stats", tag=_TAG, roles=READERS,
        summary="How starts ended: admitted, full, could not be evaluated", query=StatsQuery,
        answers={200: StatsView}, answer=stats,
    ),
)  # fmt: skip
