"""Admission: start runs while there are free slots, keep the slots, and report how runs ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from interlock.sdk.calls import change, change_answered, decoded, fetch, given, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire import admission as wire
from interlock.wire.admission import AdmissionStats, ClearedLimit, Limit, Limits, Run
from interlock.wire.approvals import ApproveBody, Review
from interlock.wire.fields import Page
from interlock.wire.workflows import DefineWorkflowBody, RerunBody, Timeline, Workflow, WorkflowStep


def start_run(
    session: Session,
    workflow: str,
    *,
    input: Any = None,  # noqa: A002 - the API's own word
    ttl_seconds: float = 60,
    wait_seconds: float = 0,
    key: str | None = None,
) -> Flow[Run]:
    """Start a run if its tenant and workflow have room; wait in line for `wait_seconds` if not.

    Raises `Full` when there is no room, `Unavailable` when that could not be found out. `key` names the
    intent: starting it again finds the same run, `replayed` as it was then, whatever became of it since.
    """
    body = wire.StartRunBody(input=input, ttl_seconds=ttl_seconds, wait_seconds=wait_seconds)
    where = path("workflows", workflow, "runs")
    response = yield from change_answered(
        session,
        where,
        body,
        key=key,
        hold_seconds=wait_seconds,
        busy_seconds=wait_seconds,
        say=session.says(f"a slot of {workflow}", wait_seconds),
    )
    replayed = response.headers.get("idempotency-replayed") == "true"
    return msgspec.structs.replace(decoded(response, Run), replayed=replayed)


def get_run(session: Session, run_id: str) -> Flow[Run]:
    """Read one run."""
    return (yield from fetch(session, path("workflow-runs", run_id), Run))


def runs(
    session: Session,
    *,
    state: str | None = None,
    workflow: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[Run]]:
    """List runs, newest first."""
    query = {"state": state, "workflow": workflow, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("workflow-runs"), Page[Run], query))


def renew_run(
    session: Session, run_id: str, fence: int | None = None, *, key: str | None = None
) -> Flow[Run]:
    """Keep a run's slot for another period. `Conflict` (`fence_stale`) if it is lost; an operator needs no fence."""
    body = wire.RunFenceBody(fence=fence)
    return (yield from change(session, path("workflow-runs", run_id, "renew"), Run, body, key=key))


def complete_run(
    session: Session, run_id: str, fence: int | None = None, *, result: Any = None, key: str | None = None
) -> Flow[Run]:
    """End a run well and free its slot; an operator needs no fence."""
    body = wire.CompleteRunBody(fence=fence, result=result)
    return (yield from change(session, path("workflow-runs", run_id, "complete"), Run, body, key=key))


def fail_run(
    session: Session, run_id: str, fence: int | None = None, *, error: str = "", key: str | None = None
) -> Flow[Run]:
    """End a run badly and free its slot; an operator needs no fence."""
    body = wire.FailRunBody(fence=fence, error=error)
    return (yield from change(session, path("workflow-runs", run_id, "fail"), Run, body, key=key))


def cancel_run(
    session: Session, run_id: str, *, fence: int | None = None, reason: str = "", key: str | None = None
) -> Flow[Run]:
    """Stop a run and free its slot; an operator needs no fence."""
    body = wire.CancelRunBody(fence=fence, reason=reason)
    return (yield from change(session, path("workflow-runs", run_id, "cancel"), Run, body, key=key))


def set_limit(session: Session, scope: str, max_concurrent_runs: int) -> Flow[Limit]:
    """Change how many runs `tenant`, or one workflow, may have at once."""
    body = wire.SetLimitBody(max_concurrent_runs=max_concurrent_runs)
    return (yield from change(session, path("limits", scope), Limit, body, key=None, method="PUT"))


def clear_limit(session: Session, scope: str) -> Flow[ClearedLimit]:
    """Take a scope's own limit away: a workflow is then limited by its tenant, a tenant by the default."""
    return (yield from change(session, path("limits", scope), ClearedLimit, None, key=None, method="DELETE"))


def limits(session: Session) -> Flow[Limits]:
    """List the limits in force."""
    return (yield from fetch(session, path("limits"), Limits))


def get_admission_stats(
    session: Session,
    *,
    window: str = "1h",
    step: str | None = None,
    by: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[AdmissionStats]:
    """How starts ended on all servers: admitted, full, could not be evaluated; with `step`, also over time.

    `window` reaches back up to 30 days. `by="topic"` lists the jobs that the policy throttled instead of starts.
    """
    query = {"window": window, "step": step, "by": by, "name": name, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("admission", "stats"), AdmissionStats, query))


def define_workflow(
    session: Session,
    workflow: str,
    steps: Sequence[WorkflowStep | Mapping[str, Any]],
    *,
    key: str | None = None,
) -> Flow[Workflow]:
    """Say which steps runs of a workflow take: each has `id`, `topic` (or `kind: approval`) and `depends_on`."""
    sent = [dict(step) if isinstance(step, Mapping) else msgspec.to_builtins(step) for step in steps]
    body = given(DefineWorkflowBody, steps=sent)
    return (yield from change(session, path("workflows", workflow), Workflow, body, key=key, method="PUT"))


def get_workflow(session: Session, workflow: str) -> Flow[Workflow]:
    """Read a workflow's definition."""
    return (yield from fetch(session, path("workflows", workflow), Workflow))


def workflows(
    session: Session, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Workflow]]:
    """List workflows by id."""
    return (yield from fetch(session, path("workflows"), Page[Workflow], {"limit": limit, "cursor": cursor}))


def delete_workflow(session: Session, workflow: str) -> Flow[Workflow]:
    """Forget a workflow; runs under way go on."""
    return (yield from change(session, path("workflows", workflow), Workflow, key=None, method="DELETE"))


def delete_run(session: Session, run_id: str) -> Flow[Run]:
    """Forget a run that is over; its jobs and what the audit says of it stay."""
    return (yield from change(session, path("workflow-runs", run_id), Run, key=None, method="DELETE"))


def get_run_timeline(session: Session, run_id: str) -> Flow[Timeline]:
    """What happened to a run and its jobs, oldest first."""
    return (yield from fetch(session, path("workflow-runs", run_id, "timeline"), Timeline))


def approve_step(
    session: Session,
    run_id: str,
    step: str,
    *,
    reason: str = "",
    job_hash: str | None = None,
    key: str | None = None,
) -> Flow[Review]:
    """Say yes to a step that asks people: to exactly what was looked at, with the `job_hash` of the step's job."""
    where = path("workflow-runs", run_id, "steps", step, "approve")
    body = given(ApproveBody, reason=reason, job_hash=job_hash)
    return (yield from change(session, where, Review, body, key=key))


def rerun_run(session: Session, run_id: str, *, from_step: str, key: str | None = None) -> Flow[Run]:
    """Run a finished run again from one of its steps; earlier results are kept."""
    where = path("workflow-runs", run_id, "rerun")
    return (yield from change(session, where, Run, RerunBody(from_step=from_step), key=key))
