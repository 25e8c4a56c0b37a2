"""Admission over HTTP: limits, runs and their slots, and how starts ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec

from interlock.admission import queries
from interlock.admission.model import RUNS_DEFAULT, TENANT_SCOPE, RunState
from interlock.admission.rules import ClearLimit, EndRun, RenewRun, SetLimit
from interlock.api import starting
from interlock.api.admission_views import (
    ClearedView,
    LimitsView,
    LimitView,
    RunView,
    StatsRow,
    StatsView,
    limit_view,
    run_view,
)
from interlock.api.decoding import Spelled
from interlock.api.jobs import READERS
from interlock.api.listing import Page, PageQuery, id_cursor
from interlock.api.operations import Answer, Body, Operation, Query, Reply
from interlock.api.problem import invalid
from interlock.api.service_calls import Asked, caller_of, decide, refuse
from interlock.api.starting import NAME, StartBody, is_name
from interlock.api.texts import Reason
from interlock.codec.canonical import canonical
from interlock.codec.durations import DurationInQuery, duration_seconds
from interlock.codec.strict import Fault
from interlock.identity.model import Role
from interlock.identity.refusals import NotFound
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service
from interlock.workflows.rules import EndWorkflowRun

_WINDOW_SECONDS_MAX = 24 * 3600
_TALLIES_MAX = 20_000

Workflow = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=rf"^{NAME}$(?!\n)")]
Fence = Annotated[int, msgspec.Meta(ge=0)]


class LimitBody(Body, frozen=True, kw_only=True):
    max_concurrent_runs: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class FenceBody(Body, frozen=True, kw_only=True):
    """The run's fence, which its starter was given. The role `operate` needs none for somebody's run."""

    fence: Fence | None = None


class CompleteBody(FenceBody, frozen=True, kw_only=True):
    result: Spelled = None


class FailBody(FenceBody, frozen=True, kw_only=True):
    error: Reason = ""


class CancelBody(FenceBody, frozen=True, kw_only=True):
    reason: Reason = ""


class RunsQuery(PageQuery, frozen=True, kw_only=True):
    state: RunState | None = None
    workflow: Workflow | None = None


class StatsQuery(Query, frozen=True, kw_only=True):
    window: DurationInQuery = "1h"


async def set_limit(call: Asked[None, LimitBody]) -> Answer:
    command = SetLimit(
        caller=caller_of(call),
        scope=_named(call, "scope"),
        max_concurrent_runs=call.body.max_concurrent_runs,
    )
    return await decide(call, command, lambda limited: Reply(200, limit_view(*limited)))


async def clear_limit(call: Asked[None, None]) -> Answer:
    scope = _named(call, "scope")
    command = ClearLimit(caller=caller_of(call), scope=scope)
    return await decide(call, command, lambda cleared: Reply(200, ClearedView(scope=scope, cleared=cleared)))


async def limits(call: Asked[PageQuery, None]) -> Reply:
    query, store, tenant = call.query, call.services.store, call.caller.tenant
    page, cursor = await queries.list_limits(store, tenant, after=query.cursor, limit=query.limit)
    gate, running = await queries.tenant_gate(store, tenant)
    items = [limit_view(limit, own) for limit, own in page]
    if query.cursor is None and gate.limit is None:
        items.insert(0, LimitView(scope=TENANT_SCOPE, max_concurrent_runs=RUNS_DEFAULT, active=gate.active))
    return Reply(
        200,
        LimitsView(
            items=items,
            active=gate.active,
            running=running,
            waiting=len(gate.line),
            next_cursor=cursor,
        ),
    )


async def start(call: Asked[None, StartBody]) -> Answer:
    return await starting.start(call, _named(call, "workflow"))


async def renew(call: Asked[None, FenceBody]) -> Answer:
    command = RenewRun(caller=caller_of(call), run_id=call.path["run_id"], fence=_fence(call, call.body))
    return await decide(call, command, lambda run: Reply(200, run_view(run, call.caller.principal)))


async def complete(call: Asked[None, CompleteBody]) -> Answer:
    result = msgspec.Raw(canonical(call.body.result))
    return await _end(call, "complete", _fence(call, call.body), result=result)


async def fail(call: Asked[None, FailBody]) -> Answer:
    return await _end(call, "fail", _fence(call, call.body), error=call.body.error)


async def cancel(call: Asked[None, CancelBody]) -> Answer:
    return await _end(call, "cancel", call.body.fence, error=call.body.reason)


def _fence(call: Asked[None, Any], body: FenceBody) -> int | None:
    """The fence that was sent, which only an operator may leave out."""
    if body.fence is None and Role.OPERATE not in call.caller.roles:
        raise invalid(Fault("/fence", "is required: send the fence that starting the run returned"))
    return body.fence


async def _end(call: Asked[None, Any], verb: str, fence: int | None, **outcome: Any) -> Answer:
    run = await queries.read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if run is None:
        return await refuse(call, NotFound("run", call.path["run_id"]))
    end = EndRun(
        caller=caller_of(call), run_id=run.id, workflow=run.workflow, verb=verb, fence=fence, **outcome
    )
    return await decide(
        call, EndWorkflowRun(end=end), lambda ended: Reply(200, run_view(ended, call.caller.principal))
    )


async def listed(call: Asked[RunsQuery, None]) -> Reply:
    query, now = call.query, call.services.now()
    found = await queries.list_runs(
        call.services.store,
        call.caller.tenant,
        state=query.state,
        workflow=query.workflow,
        now=now,
        before=id_cursor(query.cursor, "run"),
        limit=query.limit,
    )
    items = [run_view(run, call.caller.principal, now) for run in found.items]
    return Reply(200, Page(items=items, next_cursor=found.next_cursor))


async def stats(call: Asked[StatsQuery, None]) -> Reply:
    rows = await _counted(call)
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


async def _counted(call: Asked[StatsQuery, None]) -> list[StatsRow]:
    """By workflow, what this server has counted, and what the others have handed in."""
    service, tenant, seconds = call.services, call.caller.tenant, duration_seconds(call.query.window)
    counted = service.admission_stats.of(tenant, seconds)
    since = service.now() - timedelta(seconds=min(seconds, _WINDOW_SECONDS_MAX))
    server = service.admission_stats.server
    for tally in await queries.tallies_since(service.store, tenant, since, but=server, limit=_TALLIES_MAX):
        for row in tally.rows:
            sums = counted.setdefault(row.workflow, {"admitted": 0, "full": 0, "unavailable": 0})
            sums["admitted"] += row.admitted
            sums["full"] += row.full
            sums["unavailable"] += row.unavailable
    return [
        StatsRow(
            workflow=workflow,
            admitted=row["admitted"],
            full_429=row["full"],
            unavailable_503=row["unavailable"],
        )
        for workflow, row in sorted(counted.items())
    ]


def _named(call: Asked[Any, Any], parameter: str) -> str:
    name = call.path[parameter]
    if not is_name(name):
        reason = "is 1 to 200 letters, digits, dots, colons, dashes and underscores"
        raise invalid(Fault(f"path/{parameter}", reason))
    return name


_TAG = "Admission"
_RUN_ID = {"run_id": "The id that starting the run returned."}
_STARTERS = ("submit", "work", "operate", "admin")
_OWN = ("fence_stale", "not_actionable", "forbidden")
_WHOSE = "Only whoever started it, with its fence, or the role `operate`, which is audited."

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="set_limit", method="PUT", path="/api/v1/limits/{scope}", tag=_TAG, roles=("operate", "admin"),
        parameters={"scope": "`tenant`, or a workflow's id."}, summary="Change how many runs may be active",
        body=LimitBody, answers={200: LimitView}, answer=set_limit,
    ),
    Operation(
        id="clear_limit", method="DELETE", path="/api/v1/limits/{scope}", tag=_TAG, roles=("operate", "admin"),
        parameters={"scope": "`tenant`, or a workflow's id."}, summary="Take a scope's own limit away",
        description="A workflow is then limited by its tenant alone, a tenant by the default.",
        answers={200: ClearedView}, answer=clear_limit,
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
        problems=("max_concurrent_runs", "admission_unavailable"), unavailable="admission_unavailable",
        unheard=starting.count_unheard,
    ),
    Operation(
        id="list_runs", method="GET", path="/api/v1/workflow-runs", tag=_TAG, roles=READERS,
        summary="Runs, newest first", query=RunsQuery, answers={200: Page[RunView]}, answer=listed,
    ),
    Operation(
        id="renew_run", method="POST", path="/api/v1/workflow-runs/{run_id}/renew", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="Keep the slot for another period", description=_WHOSE, body=FenceBody,
        answers={200: RunView}, answer=renew, problems=_OWN,
    ),
    Operation(
        id="complete_run", method="POST", path="/api/v1/workflow-runs/{run_id}/complete", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="End a run well and free its slot", description=_WHOSE,
        body=CompleteBody, answers={200: RunView}, answer=complete, problems=_OWN,
    ),
    Operation(
        id="fail_run", method="POST", path="/api/v1/workflow-runs/{run_id}/fail", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="End a run badly and free its slot", description=_WHOSE, body=FailBody,
        answers={200: RunView}, answer=fail, problems=_OWN,
    ),
    Operation(
        id="cancel_run", method="POST", path="/api/v1/workflow-runs/{run_id}/cancel", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="Stop a run and free its slot", description=_WHOSE,
        body=CancelBody, answers={200: RunView}, answer=cancel, problems=_OWN,
    ),
    Operation(
        id="admission_stats", method="GET", path="/api/v1/admission/stats", tag=_TAG, roles=READERS,
        summary="How starts ended: admitted, full, could not be evaluated", query=StatsQuery,
        answers={200: StatsView}, answer=stats,
    ),
)  # fmt: skip
