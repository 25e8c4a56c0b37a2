"""Admission over HTTP: limits, runs and their slots."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.api.calls import REPLAYED, Asked, caller_of, decide, refuse
from interlock.api.heads import presented_key
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.api.problem import invalid
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import JsonFault as FieldFault
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Fault, LockBusy, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.kernel.wakes import Subscription
from interlock.rooms.admission import queries
from interlock.rooms.admission.model import (
    RUNS_DEFAULT,
    TENANT_SCOPE,
    Gate,
    GateFull,
    GateUnavailable,
    Limit,
    Run,
    RunState,
    place_topic,
)
from interlock.rooms.admission.rules import ClearLimit, EndRun, LeaveLine, RenewRun, SetLimit, StartRun
from interlock.rooms.identity.model import Role
from interlock.rooms.identity.refusals import NotFound, Unauthenticated
from interlock.rooms.workflows.rules import EndWorkflowRun, StartWorkflowRun
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import admission as wire
from interlock.wire.fields import OMITTED, Page
from interlock.wire.http import Request

NAME = r"[A-Za-z0-9_.:\-]{1,200}"
TTL_SECONDS_DEFAULT = 60
# A place in line lapses after `TICKET_SECONDS`; a waiting caller comes back several times before that.
_POLL_SECONDS = (1.2, 1.5)
_REST_SECONDS_EACH, _REST_SECONDS_MAX = 0.01, 1.0


async def start(call: Asked[None, wire.StartRunBody], workflow: str) -> Answer:
    """Start a run of `workflow`, and count how that ended."""
    return await counted(call, workflow, _start_or_wait(call, workflow))


async def counted(call: Asked[None, Any], workflow: str, starting: Awaitable[Answer]) -> Answer:
    """Await a start of `workflow` and count how it ended; a gate that could not be asked is told as such."""
    stats, tenant = call.services.admission_stats, call.caller.tenant
    try:
        answer = await starting
    except GateFull:
        stats.count(tenant, workflow, "full")
        raise
    except (Fault, StoreDown) as fault:
        stats.count(tenant, workflow, "unavailable")
        if isinstance(fault, LockBusy | StoreUnavailable):
            raise GateUnavailable(
                f"the gate could not be evaluated: {fault.detail}",
                retry_after_seconds=fault.retry_after_seconds,
            ) from fault
        raise
    if answer.headers != REPLAYED:
        stats.count(tenant, workflow, "admitted")
    return answer


def is_name(text: str) -> bool:
    """Whether this can be the name of a workflow."""
    return re.fullmatch(NAME, text) is not None


def count_unheard(error: Exception, request: Request, path: Mapping[str, str], service: Service) -> None:
    """Count a start that did not reach the gate; in an outage, none does.

    Its tenant is known only if the key was presented before.
    """
    if not isinstance(error, Fault | StoreDown) or not is_name(path["workflow"]):
        return
    with contextlib.suppress(Unauthenticated):
        if caller := service.keyring.last_known(presented_key(request)):
            service.admission_stats.count(caller.tenant, path["workflow"], "unavailable")


async def _start_or_wait(call: Asked[None, wire.StartRunBody], workflow: str) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever a slot may have come free."""
    command = _start_command(call, workflow)
    if command.ticket is None:
        return await _start_now(call, command)
    async with _standing(call, command.ticket) as place:
        while True:
            try:
                return await _start_now(call, command)
            except GateFull as full:
                if full.is_line_full or not await place.wait(full.waiting):
                    await _leave(call, command)
                    raise


async def _start_now(call: Asked[None, wire.StartRunBody], command: StartRun) -> Answer:
    whole = StartWorkflowRun(start=command)
    return await decide(call, whole, lambda run: Reply(201, run_view(run, call.caller.principal)))


def _start_command(call: Asked[None, wire.StartRunBody], workflow: str) -> StartRun:
    body = call.body
    return StartRun(
        caller=caller_of(call),
        workflow=workflow,
        call_id=new_id("call"),
        ttl_seconds=body.ttl_seconds,
        input=msgspec.Raw(canonical(body.input)),
        ticket=_ticket(call, workflow) if body.wait_seconds > 0 else None,
    )


def _ticket(call: Asked[None, wire.StartRunBody], workflow: str) -> str:
    """A repeat under the same idempotency key keeps its place in line."""
    if call.idempotency_key is None:
        return new_id("tkt")
    scope = "\0".join((call.caller.principal, workflow, call.idempotency_key))
    return f"tkt_{hashlib.sha256(scope.encode()).hexdigest()[:32]}"


class _Place:
    """Where one call waits: until it is woken, asks again by itself, gives up, or its client leaves."""

    def __init__(
        self, call: Asked[None, wire.StartRunBody], woken: Subscription, gone: asyncio.Task[None]
    ) -> None:
        self._service = call.services
        self._deadline = asyncio.get_running_loop().time() + call.body.wait_seconds
        self._woken = woken
        self._gone = gone
        self._was_woken = False

    async def wait(self, ahead: int) -> bool:
        """Wait for the next try; False if there is to be none.

        A caller that was woken in vain rests, and rests longer the more callers are ahead of it: on a file that
        several servers share, every commit of another server wakes every waiting caller.
        """
        left = self._deadline - asyncio.get_running_loop().time()
        if left > 0 and not self._service.is_stopping:
            poll = min(left, random.uniform(*_POLL_SECONDS))
            rest = min(ahead * _REST_SECONDS_EACH, _REST_SECONDS_MAX, poll) if self._was_woken else 0
            if rest:
                await asyncio.wait({self._gone}, timeout=rest)
            self._was_woken = await self._woken.wait(poll - rest)
        return left > 0 and not self._gone.done() and not self._service.is_stopping


@contextlib.asynccontextmanager
async def _standing(call: Asked[None, wire.StartRunBody], ticket: str) -> AsyncGenerator[_Place]:
    gone = asyncio.create_task(_until_gone(call))
    try:
        with call.services.kernel.wakes.subscribe(place_topic(call.caller.tenant, ticket)) as woken:
            yield _Place(call, woken, gone)
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _until_gone(call: Asked[None, wire.StartRunBody]) -> None:
    if call.request.gone is None:
        await asyncio.Event().wait()
    else:
        await call.request.gone()


async def _leave(call: Asked[None, wire.StartRunBody], command: StartRun) -> None:
    """Give the place up. A server that stops leaves it to a repeat of the call; else it lapses in time."""
    if command.ticket is not None and not call.services.is_stopping:
        leaving = LeaveLine(caller=command.caller, ticket=command.ticket, call_id=command.call_id)
        with contextlib.suppress(Fault):
            await call.services.kernel.run(leaving)


Workflow = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=rf"^{NAME}$(?!\n)")]


class RunsQuery(PageQuery, frozen=True, kw_only=True):
    state: RunState | None = None
    workflow: Workflow | None = None


async def set_limit(call: Asked[None, wire.SetLimitBody]) -> Answer:
    command = SetLimit(
        caller=caller_of(call),
        scope=_named(call, "scope"),
        max_concurrent_runs=call.body.max_concurrent_runs,
    )
    return await decide(call, command, lambda limited: Reply(200, limit_view(*limited)))


async def clear_limit(call: Asked[None, None]) -> Answer:
    scope = _named(call, "scope")
    command = ClearLimit(caller=caller_of(call), scope=scope)
    return await decide(
        call, command, lambda cleared: Reply(200, wire.ClearedLimit(scope=scope, cleared=cleared))
    )


async def limits(call: Asked[PageQuery, None]) -> Reply:
    query, store, tenant = call.query, call.services.store, call.caller.tenant
    page, cursor = await queries.list_limits(store, tenant, after=query.cursor, limit=query.limit)
    gate, running = await queries.tenant_gate(store, tenant)
    items = [limit_view(limit, own) for limit, own in page]
    if query.cursor is None and gate.limit is None:
        items.insert(0, wire.Limit(scope=TENANT_SCOPE, max_concurrent_runs=RUNS_DEFAULT, active=gate.active))
    return Reply(
        200,
        wire.Limits(
            items=tuple(items),
            active=gate.active,
            running=running,
            waiting=len(gate.line),
            next_cursor=cursor,
        ),
    )


async def admission_start(call: Asked[None, wire.StartRunBody]) -> Answer:
    return await start(call, _named(call, "workflow"))


async def renew(call: Asked[None, wire.RunFenceBody]) -> Answer:
    command = RenewRun(caller=caller_of(call), run_id=call.path["run_id"], fence=_fence(call, call.body))
    return await decide(call, command, lambda run: Reply(200, run_view(run, call.caller.principal)))


async def complete(call: Asked[None, wire.CompleteRunBody]) -> Answer:
    result = msgspec.Raw(canonical(call.body.result))
    return await _end(call, "complete", _fence(call, call.body), result=result)


async def fail(call: Asked[None, wire.FailRunBody]) -> Answer:
    return await _end(call, "fail", _fence(call, call.body), error=call.body.error)


async def cancel(call: Asked[None, wire.CancelRunBody]) -> Answer:
    return await _end(call, "cancel", call.body.fence, error=call.body.reason)


def _fence(call: Asked[None, Any], body: wire.RunFenceBody) -> int | None:
    """The fence that was sent, which only an operator may leave out."""
    if body.fence is None and Role.OPERATE not in call.caller.roles:
        raise invalid(FieldFault("/fence", "is required: send the fence that starting the run returned"))
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
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


def _named(call: Asked[Any, Any], parameter: str) -> str:
    name = call.path[parameter]
    if not is_name(name):
        reason = "must be 1 to 200 letters, digits, dots, colons, dashes and underscores"
        raise invalid(FieldFault(f"path/{parameter}", reason))
    return name


def limit_view(limit: Limit, gate: Gate | None) -> wire.Limit:
    return wire.Limit(
        scope=limit.id,
        max_concurrent_runs=limit.max_concurrent_runs,
        active=gate.active if gate else 0,
        set_by=limit.set_by,
        set_at=limit.set_at,
    )


def run_view(run: Run, seen_by: str, now: datetime | None = None) -> wire.Run:
    """A run as `seen_by` sees it; with `now`, one past its slot's time is shown as lost."""
    return wire.Run(
        run_id=run.id,
        workflow=run.workflow,
        state=(run.state_at(now) if now else run.state).value,
        fence=run.fence if seen_by == run.started_by else OMITTED,
        ttl_seconds=run.ttl_seconds,
        slot_expires_at=run.slot_expires_at,
        input=run.input,
        result=run.result,
        error=run.error,
        started_by=run.started_by,
        started_at=run.started_at,
        ended_at=run.ended_at,
        replayed=OMITTED,
    )


_TAG = "Admission"
_RUN_ID = {"run_id": "The id that starting the run returned."}
_STARTERS = ("submit", "work", "operate", "admin")
_OWN = ("fence_stale", "not_actionable", "forbidden")
_WHOSE = "Only for the caller that started it, with its fence, or for the role `operate`, which is audited."

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="set_limit", method="PUT", path="/api/v1/limits/{scope}", tag=_TAG, roles=("operate", "admin"),
        parameters={"scope": "`tenant`, or a workflow's id."}, summary="Change how many runs may be active",
        body=wire.SetLimitBody, answers={200: wire.Limit}, answer=set_limit,
    ),
    Operation(
        id="clear_limit", method="DELETE", path="/api/v1/limits/{scope}", tag=_TAG, roles=("operate", "admin"),
        parameters={"scope": "`tenant`, or a workflow's id."}, summary="Take a scope's own limit away",
        description="A workflow is then limited by its tenant alone, a tenant by the default.",
        answers={200: wire.ClearedLimit}, answer=clear_limit,
    ),
    Operation(
        id="list_limits", method="GET", path="/api/v1/limits", tag=_TAG, roles=READERS,
        summary="Limits by scope", query=PageQuery, answers={200: wire.Limits}, answer=limits,
    ),
    Operation(
        id="start_run", method="POST", path="/api/v1/workflows/{workflow}/runs", tag=_TAG, roles=_STARTERS,
        parameters={"workflow": "The workflow's id."}, summary="Start a run if there is room",
        description="429: evaluated and full. 503: could not be evaluated. Neither creates anything.",
        body=wire.StartRunBody, answers={201: wire.Run}, answer=admission_start,
        problems=("max_concurrent_runs", "admission_unavailable"), unavailable="admission_unavailable",
        unheard=count_unheard,
    ),
    Operation(
        id="list_runs", method="GET", path="/api/v1/workflow-runs", tag=_TAG, roles=READERS,
        summary="Runs, newest first", query=RunsQuery, answers={200: Page[wire.Run]}, answer=listed,
    ),
    Operation(
        id="renew_run", method="POST", path="/api/v1/workflow-runs/{run_id}/renew", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="Keep the slot for another period", description=_WHOSE, body=wire.RunFenceBody,
        answers={200: wire.Run}, answer=renew, problems=_OWN,
    ),
    Operation(
        id="complete_run", method="POST", path="/api/v1/workflow-runs/{run_id}/complete", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="End a run well and free its slot", description=_WHOSE,
        body=wire.CompleteRunBody, answers={200: wire.Run}, answer=complete, problems=_OWN,
    ),
    Operation(
        id="fail_run", method="POST", path="/api/v1/workflow-runs/{run_id}/fail", tag=_TAG, roles=_STARTERS,
        parameters=_RUN_ID, summary="End a run badly and free its slot", description=_WHOSE, body=wire.FailRunBody,
        answers={200: wire.Run}, answer=fail, problems=_OWN,
    ),
    Operation(
        id="cancel_run", method="POST", path="/api/v1/workflow-runs/{run_id}/cancel", tag=_TAG,
        roles=_STARTERS, parameters=_RUN_ID, summary="Stop a run and free its slot", description=_WHOSE,
        body=wire.CancelRunBody, answers={200: wire.Run}, answer=cancel, problems=_OWN,
    ),
)  # fmt: skip
