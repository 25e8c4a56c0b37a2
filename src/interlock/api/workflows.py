"""Workflows over HTTP: definitions, runs with their steps and timeline, step approvals, rerun."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.api.admission import counted
from interlock.api.admission_views import RunView, run_view
from interlock.api.approvals import APPROVAL_PROBLEMS, ApproveBody, DecidedView, approve_by_id
from interlock.api.audit import EntryView, entry_view
from interlock.api.calls import Asked, caller_of, decide, refuse
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.pages import PageQuery
from interlock.api.workflow_views import (
    RunWithSteps,
    StepBody,
    StepId,
    TimelineView,
    WorkflowsView,
    WorkflowView,
    step_of,
    steps_view,
    workflow_view,
)
from interlock.kernel.refusal import Next
from interlock.rooms.admission.model import Run, RunState
from interlock.rooms.admission.queries import read_run
from interlock.rooms.admission.rules import StartRun
from interlock.rooms.audit import queries as audit_queries
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.workflows import queries
from interlock.rooms.workflows.advance import AdvanceRun
from interlock.rooms.workflows.reruns import RerunFrom
from interlock.rooms.workflows.rules import SLOT_SECONDS, DefineWorkflow, DeleteRun, DeleteWorkflow
from interlock.service.keyring import Known
from interlock.service.service import Service

_TIMELINE_MAX = 200


class DefineBody(Body, frozen=True, kw_only=True):
    """Without steps, a run of the workflow is only a slot."""

    steps: Annotated[list[StepBody], msgspec.Meta(max_length=50)] = []


class RerunBody(Body, frozen=True, kw_only=True):
    from_step: StepId


async def define(call: Asked[None, DefineBody]) -> Answer:
    steps = tuple(step_of(body) for body in call.body.steps)
    command = DefineWorkflow(caller=caller_of(call), workflow=call.path["workflow"], steps=steps)
    return await decide(call, command, lambda known: Reply(200, workflow_view(known)))


async def read_definition(call: Asked[None, None]) -> Reply:
    known = await queries.read_workflow(call.services.store, call.caller.tenant, call.path["workflow"])
    if known is None:
        raise NotFound("workflow", call.path["workflow"])
    return Reply(200, workflow_view(known))


async def list_definitions(call: Asked[PageQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_workflows(
        call.services.store, call.caller.tenant, after=query.cursor, limit=query.limit
    )
    items = [workflow_view(each) for each in found.items]
    return Reply(200, WorkflowsView(items=items, next_cursor=found.next_cursor))


async def delete(call: Asked[None, None]) -> Answer:
    command = DeleteWorkflow(caller=caller_of(call), workflow=call.path["workflow"])
    return await decide(call, command, lambda known: Reply(200, workflow_view(known)))


async def read(call: Asked[None, None]) -> Reply:
    run = await read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if run is None:
        raise NotFound("run", call.path["run_id"])
    progress = await queries.read_progress(call.services.store, run.tenant, run.id)
    shown = msgspec.structs.asdict(run_view(run, call.caller.principal, call.services.now()))
    return Reply(200, RunWithSteps(**shown, steps=steps_view(progress)))


async def timeline(call: Asked[None, None]) -> Reply:
    store, tenant, run_id = call.services.store, call.caller.tenant, call.path["run_id"]
    if await read_run(store, tenant, run_id) is None:
        raise NotFound("run", run_id)
    progress = await queries.read_progress(store, tenant, run_id)
    subjects = [run_id, *(step.job_id for step in progress.steps if step.job_id)] if progress else [run_id]
    entries: list[EntryView] = []
    for subject in subjects:
        rows = await audit_queries.list_entries(store, tenant, subject=subject, limit=_TIMELINE_MAX)
        entries.extend(entry_view(n, entry) for n, entry in rows)
    return Reply(200, TimelineView(items=sorted(entries, key=lambda entry: entry.n)))


async def approve_step(call: Asked[None, ApproveBody]) -> Answer:
    progress = await queries.read_progress(call.services.store, call.caller.tenant, call.path["run_id"])
    step = progress.step(call.path["step"]) if progress else None
    if step is None or step.job_id is None:
        then = Next("get_run", {"run_id": call.path["run_id"]})
        return await refuse(
            call, NotFound("open question", call.path["step"], "see how far the run is", then)
        )
    return await approve_by_id(call, step.job_id)


async def delete_run(call: Asked[None, None]) -> Answer:
    run = await read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if run is None:
        return await refuse(call, NotFound("run", call.path["run_id"]))
    await _settle(call, run)
    command = DeleteRun(caller=caller_of(call), run_id=run.id)
    return await decide(call, command, lambda gone: Reply(200, run_view(gone, call.caller.principal)))


async def rerun(call: Asked[None, RerunBody]) -> Answer:
    old = await read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if old is None:
        return await refuse(call, NotFound("run", call.path["run_id"]))
    return await counted(call, old.workflow, _rerun(call, old))


async def _rerun(call: Asked[None, RerunBody], old: Run) -> Answer:
    await _settle(call, old)
    start = StartRun(
        caller=caller_of(call),
        workflow=old.workflow,
        ttl_seconds=SLOT_SECONDS,
        input=old.input,
    )
    command = RerunFrom(start=start, old_run_id=old.id, step=call.body.from_step)
    return await decide(call, command, lambda run: Reply(201, run_view(run, call.caller.principal)))


async def _settle(call: Asked[None, Any], run: Run) -> None:
    """Stop the steps of a run that was cancelled just now."""
    if run.state is not RunState.RUNNING:
        looked = AdvanceRun(
            tenant=run.tenant, run_id=run.id, workflow=run.workflow, started_by=run.started_by
        )
        await call.services.kernel.run(looked)


_TAG = "Workflows"
_WORKFLOW = {"workflow": "The workflow's id."}
_RUN_ID = {"run_id": "The id that starting the run returned."}
_OPERATORS = ("operate", "admin")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_workflows", method="GET", path="/api/v1/workflows", tag=_TAG, roles=READERS,
        summary="Workflows by id", query=PageQuery, answers={200: WorkflowsView}, answer=list_definitions,
    ),
    Operation(
        id="define_workflow", method="PUT", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=_OPERATORS,
        parameters=_WORKFLOW, summary="Say which steps runs of a workflow take", body=DefineBody,
        answers={200: WorkflowView}, answer=define,
    ),
    Operation(
        id="get_workflow", method="GET", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=READERS,
        parameters=_WORKFLOW, summary="Read a workflow", answers={200: WorkflowView}, answer=read_definition,
    ),
    Operation(
        id="delete_workflow", method="DELETE", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=_OPERATORS,
        parameters=_WORKFLOW, summary="Forget a workflow", answers={200: WorkflowView}, answer=delete,
    ),
    Operation(
        id="get_run", method="GET", path="/api/v1/workflow-runs/{run_id}", tag=_TAG, roles=READERS,
        parameters=_RUN_ID, summary="Read a run and how far its steps have come",
        answers={200: RunWithSteps}, answer=read,
    ),
    Operation(
        id="delete_run", method="DELETE", path="/api/v1/workflow-runs/{run_id}", tag=_TAG, roles=_OPERATORS,
        parameters=_RUN_ID, summary="Forget a run that is over", answers={200: RunView}, answer=delete_run,
        problems=("not_actionable",),
    ),
    Operation(
        id="run_timeline", method="GET", path="/api/v1/workflow-runs/{run_id}/timeline", tag=_TAG, roles=READERS,
        parameters=_RUN_ID, summary="What happened to a run and its jobs", answers={200: TimelineView},
        answer=timeline,
    ),
    Operation(
        id="approve_step", method="POST", path="/api/v1/workflow-runs/{run_id}/steps/{step}/approve", tag=_TAG,
        parameters={**_RUN_ID, "step": "The step's id."}, summary="Say yes to a step that asks people",
        body=ApproveBody, answers={200: DecidedView}, answer=approve_step,
        problems=APPROVAL_PROBLEMS,
    ),
    Operation(
        id="rerun_run", method="POST", path="/api/v1/workflow-runs/{run_id}/rerun", tag=_TAG,
        roles=("submit", "work", "operate", "admin"), parameters=_RUN_ID,
        summary="Run a finished run again from one of its steps", body=RerunBody,
        answers={201: RunView}, answer=rerun,
        problems=("max_concurrent_runs", "admission_unavailable", "not_actionable"),
        unavailable="admission_unavailable",
    ),
)  # fmt: skip
