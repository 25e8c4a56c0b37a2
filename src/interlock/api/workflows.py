"""Workflows over HTTP: definitions, runs with their steps and timeline, step approvals, rerun."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.api.admission import counted, run_view
from interlock.api.approvals import APPROVAL_PROBLEMS, approve_by_id
from interlock.api.audit import entry_view
from interlock.api.calls import Asked, caller_of, decide, refuse
from interlock.api.jobs import READERS, unseen_fault
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.refusal import Next
from interlock.rooms.admission.model import Run, RunState
from interlock.rooms.admission.queries import read_run
from interlock.rooms.admission.rules import StartRun
from interlock.rooms.audit import queries as audit_queries
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.workflows import queries
from interlock.rooms.workflows.advance import AdvanceRun
from interlock.rooms.workflows.model import Progress, Step, StepKind, Workflow
from interlock.rooms.workflows.rules import SLOT_SECONDS, DefineWorkflow, DeleteRun, DeleteWorkflow, RerunFrom
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import admission as wire_admission
from interlock.wire import workflows as wire
from interlock.wire.approvals import ApproveBody, Review
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page

_TIMELINE_MAX = 200


async def define(call: Asked[None, wire.DefineWorkflowBody]) -> Answer:
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
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def delete(call: Asked[None, None]) -> Answer:
    command = DeleteWorkflow(caller=caller_of(call), workflow=call.path["workflow"])
    return await decide(call, command, lambda known: Reply(200, workflow_view(known)))


async def read(call: Asked[None, None]) -> Reply:
    run = await read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if run is None:
        raise NotFound("run", call.path["run_id"])
    progress = await queries.read_progress(call.services.store, run.tenant, run.id)
    shown = msgspec.structs.asdict(run_view(run, call.caller.principal, call.services.now()))
    return Reply(200, wire.RunWithSteps(**shown, steps=steps_view(progress)))


async def timeline(call: Asked[None, None]) -> Reply:
    store, tenant, run_id = call.services.store, call.caller.tenant, call.path["run_id"]
    if await read_run(store, tenant, run_id) is None:
        raise NotFound("run", run_id)
    progress = await queries.read_progress(store, tenant, run_id)
    subjects = [run_id, *(step.job_id for step in progress.steps if step.job_id)] if progress else [run_id]
    entries: list[tuple[int, AuditEntry]] = []
    for subject in subjects:
        rows = await audit_queries.list_entries(store, tenant, subject=subject, limit=_TIMELINE_MAX)
        entries.extend((n, entry_view(n, entry)) for n, entry in rows)
    return Reply(
        200, wire.Timeline(items=tuple(shown for _, shown in sorted(entries, key=lambda each: each[0])))
    )


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


async def rerun(call: Asked[None, wire.RerunBody]) -> Answer:
    old = await read_run(call.services.store, call.caller.tenant, call.path["run_id"])
    if old is None:
        return await refuse(call, NotFound("run", call.path["run_id"]))
    return await counted(call, old.workflow, _rerun(call, old))


async def _rerun(call: Asked[None, wire.RerunBody], old: Run) -> Answer:
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


def step_of(body: wire.StepBody) -> Step:
    if reason := unseen_fault(body.env):
        raise invalid(JsonFault("/steps", f"the env of step {body.id} {reason}"))
    return Step(
        id=body.id,
        kind=StepKind(body.kind),
        topic=body.topic or "",
        env=body.env,
        depends_on=tuple(body.depends_on),
        max_attempts=body.retry.max_attempts,
        timeout_seconds=body.timeout_seconds,
        quorum=body.quorum,
        groups=tuple(body.groups),
    )


def workflow_view(known: Workflow) -> wire.Workflow:
    return wire.Workflow(
        id=known.id,
        steps=tuple(_step_view(step) for step in known.steps),
        defined_by=known.defined_by,
        defined_at=known.defined_at,
        version=known.version,
    )


def _step_view(step: Step) -> wire.WorkflowStep:
    return wire.WorkflowStep(
        id=step.id,
        kind=step.kind.value,
        topic=step.topic or None,
        env=step.env,
        depends_on=step.depends_on,
        retry=wire.StepRetry(max_attempts=step.max_attempts),
        timeout_seconds=step.timeout_seconds,
        quorum=step.quorum,
        groups=step.groups,
    )


def steps_view(progress: Progress | None) -> tuple[wire.RunStep, ...]:
    if progress is None:
        return ()
    kinds = {step.id: step for step in progress.definition}
    return tuple(
        wire.RunStep(
            id=step.id,
            kind=kinds[step.id].kind.value,
            state=step.state.value,
            depends_on=kinds[step.id].depends_on,
            job_id=step.job_id,
            started_at=step.started_at,
            ended_at=step.ended_at,
            why=step.why,
        )
        for step in progress.steps
    )


_TAG = "Workflows"
_WORKFLOW = {"workflow": "The workflow's id."}
_RUN_ID = {"run_id": "The id that starting the run returned."}
_OPERATORS = ("operate", "admin")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_workflows", method="GET", path="/api/v1/workflows", tag=_TAG, roles=READERS,
        summary="Workflows by id", query=PageQuery, answers={200: Page[wire.Workflow]}, answer=list_definitions,
    ),
    Operation(
        id="define_workflow", method="PUT", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=_OPERATORS,
        parameters=_WORKFLOW, summary="Say which steps runs of a workflow take", body=wire.DefineWorkflowBody,
        answers={200: wire.Workflow}, answer=define,
    ),
    Operation(
        id="get_workflow", method="GET", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=READERS,
        parameters=_WORKFLOW, summary="Read a workflow", answers={200: wire.Workflow}, answer=read_definition,
    ),
    Operation(
        id="delete_workflow", method="DELETE", path="/api/v1/workflows/{workflow}", tag=_TAG, roles=_OPERATORS,
        parameters=_WORKFLOW, summary="Forget a workflow", answers={200: wire.Workflow}, answer=delete,
    ),
    Operation(
        id="get_run", method="GET", path="/api/v1/workflow-runs/{run_id}", tag=_TAG, roles=READERS,
        parameters=_RUN_ID, summary="Read a run and how far its steps have come",
        answers={200: wire.RunWithSteps}, answer=read,
    ),
    Operation(
        id="delete_run", method="DELETE", path="/api/v1/workflow-runs/{run_id}", tag=_TAG, roles=_OPERATORS,
        parameters=_RUN_ID, summary="Forget a run that is over", answers={200: wire_admission.Run}, answer=delete_run,
        problems=("not_actionable",),
    ),
    Operation(
        id="run_timeline", method="GET", path="/api/v1/workflow-runs/{run_id}/timeline", tag=_TAG, roles=READERS,
        parameters=_RUN_ID, summary="What happened to a run and its jobs", answers={200: wire.Timeline},
        answer=timeline,
    ),
    Operation(
        id="approve_step", method="POST", path="/api/v1/workflow-runs/{run_id}/steps/{step}/approve", tag=_TAG,
        parameters={**_RUN_ID, "step": "The step's id."}, summary="Say yes to a step that asks people",
        body=ApproveBody, answers={200: Review}, answer=approve_step,
        problems=APPROVAL_PROBLEMS,
    ),
    Operation(
        id="rerun_run", method="POST", path="/api/v1/workflow-runs/{run_id}/rerun", tag=_TAG,
        roles=("submit", "work", "operate", "admin"), parameters=_RUN_ID,
        summary="Run a finished run again from one of its steps", body=wire.RerunBody,
        answers={201: wire_admission.Run}, answer=rerun,
        problems=("max_concurrent_runs", "admission_unavailable", "not_actionable"),
        unavailable="admission_unavailable",
    ),
)  # fmt: skip
