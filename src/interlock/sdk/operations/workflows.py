"""Workflows: define steps, follow runs of them, run them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.sdk.approval_models import Review
from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.models import Run
from interlock.sdk.session import Session


def define_workflow(
    session: Session, workflow: str, steps: Sequence[Mapping[str, Any]], *, key: str | None = None
) -> Flow[Any]:
    """Say which steps runs of a workflow take: each has `id`, `topic` (or `kind: approval`) and `depends_on`."""
    body = {"steps": [dict(step) for step in steps]}
    return (yield from change(session, path("workflows", workflow), object, body, key=key, method="PUT"))


def workflow(session: Session, workflow: str) -> Flow[Any]:
    """Read a workflow's definition."""
    return (yield from fetch(session, path("workflows", workflow), object))


def workflows(session: Session, *, limit: int | None = None, cursor: str | None = None) -> Flow[Any]:
    """List workflows by id."""
    return (yield from fetch(session, path("workflows"), object, {"limit": limit, "cursor": cursor}))


def delete_workflow(session: Session, workflow: str) -> Flow[Any]:
    """Forget a workflow; runs under way go on."""
    return (yield from change(session, path("workflows", workflow), object, key=None, method="DELETE"))


def delete_run(session: Session, run_id: str) -> Flow[Run]:
    """Forget a run that is over; its jobs and what the audit says of it stay."""
    return (yield from change(session, path("workflow-runs", run_id), Run, key=None, method="DELETE"))


def run_timeline(session: Session, run_id: str) -> Flow[Any]:
    """What happened to a run and its jobs, oldest first."""
    return (yield from fetch(session, path("workflow-runs", run_id, "timeline"), object))


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
    body = {"reason": reason, "job_hash": job_hash}
    return (yield from change(session, where, Review, body, key=key))


def rerun(session: Session, run_id: str, *, from_step: str, key: str | None = None) -> Flow[Run]:
    """Run a finished run again from one of its steps; earlier results are kept."""
    where = path("workflow-runs", run_id, "rerun")
    return (yield from change(session, where, Run, {"from_step": from_step}, key=key))
