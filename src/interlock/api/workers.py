"""Work that is held, over HTTP: renew, complete, fail, release; and retry of a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.api.decoding import Spelled
from interlock.api.effects import evidence_of
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.problem import ProblemError, problem
from interlock.api.service_calls import JOB_ID, Asked, caller_of, decide
from interlock.api.views import JobView, job_view
from interlock.codec.canonical import canonical
from interlock.effects.model import Outcome
from interlock.jobs.call_settling import ReconcileCall
from interlock.jobs.finishing import CompleteJob, FailJob, RetryJob
from interlock.jobs.leasing import HolderCommand, ReleaseJob, RenewJob
from interlock.jobs.model import Job, JobState
from interlock.jobs.refusals import FenceStale
from interlock.runtime.keyring import Known
from interlock.runtime.permits import Signer
from interlock.runtime.service import Service

_CHECKPOINT_BYTES_MAX = 64 * 1024
_RESULT_BYTES_MAX = 256 * 1024
_ERROR_BYTES_MAX = 16 * 1024

FenceNumber = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Reason = Annotated[str, msgspec.Meta(max_length=4000, pattern=r"^[^\u0000]*$")]


class RenewBody(Body, frozen=True, kw_only=True):
    fence: FenceNumber
    checkpoint: Spelled = None


class CompleteBody(Body, frozen=True, kw_only=True):
    """`result_text` is for a result that is not JSON: what people are shown of it."""

    fence: FenceNumber
    result: Spelled = None
    result_text: Annotated[str, msgspec.Meta(max_length=4000)] | None = None


class FailBody(Body, frozen=True, kw_only=True):
    """`error` is a text or an object; a retryable failure is tried again while attempts last."""

    fence: FenceNumber
    error: Spelled
    retryable: bool = True


class ReleaseBody(Body, frozen=True, kw_only=True):
    fence: FenceNumber
    checkpoint: Spelled = None


class ReconcileBody(Body, frozen=True, kw_only=True):
    """What the remote side says of a call in doubt, and how you know. `result` is what a repeat returns."""

    outcome: Outcome
    evidence: Spelled
    result: Spelled = None


class RetryBody(Body, frozen=True, kw_only=True):
    reason: Reason = ""


class RenewedView(msgspec.Struct, frozen=True, kw_only=True):
    """The lease's new end, and a permit until then."""

    id: str
    state: str
    fence: int
    attempt: int
    lease_expires_at: datetime
    permit: str


async def renew(call: Asked[None, RenewBody]) -> Answer:
    body = call.body
    checkpoint = _within(call, "checkpoint", body.checkpoint, _CHECKPOINT_BYTES_MAX)
    signer = await call.services.permits.ready()
    command = RenewJob(
        **_holder(call, body.fence), backoff=call.services.settings.backoff(), checkpoint=checkpoint
    )
    return await _held(call, command, lambda job: Reply(200, _renewed(job, signer)))


async def complete(call: Asked[None, CompleteBody]) -> Answer:
    body = call.body
    result = _within(call, "result", body.result, _RESULT_BYTES_MAX)
    command = CompleteJob(**_holder(call, body.fence), result=result, result_text=body.result_text)
    return await _finished(call, command)


async def fail(call: Asked[None, FailBody]) -> Answer:
    body = call.body
    error = _within(call, "error", body.error, _ERROR_BYTES_MAX)
    command = FailJob(
        **_holder(call, body.fence),
        backoff=call.services.settings.backoff(),
        error=error,
        retryable=body.retryable,
    )
    return await _finished(call, command)


async def release(call: Asked[None, ReleaseBody]) -> Answer:
    body = call.body
    checkpoint = _within(call, "checkpoint", body.checkpoint, _CHECKPOINT_BYTES_MAX)
    command = ReleaseJob(**_holder(call, body.fence), checkpoint=checkpoint)
    return await _finished(call, command)


async def retry(call: Asked[None, RetryBody]) -> Answer:
    command = RetryJob(caller=caller_of(call), job_id=call.path["job_id"], reason=call.body.reason)
    return await decide(call, command, lambda job: Reply(200, job_view(job, seen_by=call.caller.principal)))


async def reconcile(call: Asked[None, ReconcileBody]) -> Answer:
    body = call.body
    _check_size(call, "result", body.result, _RESULT_BYTES_MAX)
    command = ReconcileCall(
        caller=caller_of(call),
        job_id=call.path["job_id"],
        outcome=body.outcome,
        evidence=evidence_of(body.evidence),
        result=msgspec.Raw(canonical(body.result)),
    )
    return await decide(call, command, lambda job: Reply(200, job_view(job)))


async def _finished(call: Asked[Any, Any], command: HolderCommand) -> Answer:
    """End an attempt, and count what came of it."""
    finished = call.services.measures.work.finished
    return await _held(
        call,
        command,
        lambda job: Reply(200, job_view(job, seen_by=call.caller.principal)),
        count=lambda job: finished.add(_OUTCOMES.get(job.state, "retrying")),
    )


async def _held(
    call: Asked[Any, Any],
    command: HolderCommand,
    render: Callable[[Job], Reply],
    count: Callable[[Job], None] | None = None,
) -> Answer:
    try:
        return await decide(call, command, render, count=count)
    except FenceStale:
        call.services.measures.work.stale_fences.add(command.verb())
        raise


_OUTCOMES = {JobState.SUCCEEDED: "succeeded", JobState.FAILED: "failed"}


def _holder(call: Asked[Any, Any], fence: int) -> dict[str, Any]:
    return {"caller": caller_of(call), "job_id": call.path["job_id"], "fence": fence}


def _renewed(job: Job, signer: Signer) -> RenewedView:
    if job.lease is None:
        raise ValueError(f"{job.id} was renewed without a lease")
    return RenewedView(
        id=job.id,
        state=job.state.value,
        fence=job.fence,
        attempt=job.attempt,
        lease_expires_at=job.lease.expires_at,
        permit=signer.permit(job),
    )


def _within(call: Asked[Any, Any], what: str, value: Any, most: int) -> Any:
    """The value, if it is no longer than that."""
    _check_size(call, what, value, most)
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _check_size(call: Asked[Any, Any], what: str, value: Any, most: int) -> None:
    if len(call.request.body) * _SPELLED_OUT >= most and (size := len(canonical(value))) > most:
        detail = f"{what} has {size} bytes, more than {most}; keep the bulk elsewhere and send a reference"
        raise ProblemError(problem("too_large", detail, members={"limit_bytes": most}))


# No value is this many times longer in its canonical spelling than as it was sent.
_SPELLED_OUT = 8

_TAG = "Workers"
_HOLDERS = ("work", "submit")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="renew_job", method="POST", path="/api/v1/jobs/{job_id}/renew", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Keep a job for another lease's length; leave a checkpoint",
        body=RenewBody, answers={200: RenewedView}, answer=renew, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="complete_job", method="POST", path="/api/v1/jobs/{job_id}/complete", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Say that a job is done",
        body=CompleteBody, answers={200: JobView}, answer=complete, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="fail_job", method="POST", path="/api/v1/jobs/{job_id}/fail", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Say that a job did not succeed, and whether to try again",
        body=FailBody, answers={200: JobView}, answer=fail, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="release_job", method="POST", path="/api/v1/jobs/{job_id}/release", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Give a job back without counting an attempt",
        body=ReleaseBody, answers={200: JobView}, answer=release, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="retry_job", method="POST", path="/api/v1/jobs/{job_id}/retry", tag=_TAG, parameters=JOB_ID,
        roles=("submit", "operate", "admin"), summary="Put a dead letter back; of several callers one wins",
        body=RetryBody, answers={200: JobView}, answer=retry, problems=("not_actionable",),
    ),
    Operation(
        id="reconcile_job", method="POST", path="/api/v1/jobs/{job_id}/reconcile", tag=_TAG, parameters=JOB_ID,
        roles=("submit",), summary="Say what the remote side told you about your own call in doubt",
        description="For the submitter of a gated call (`executor` \"caller\"). Committed: the job is done, with "
        "`result`. Not committed: it may be claimed again. Anybody else resolves the call's effect.",
        body=ReconcileBody, answers={200: JobView}, answer=reconcile,
        problems=("not_actionable", "effect_in_progress", "too_large"),
    ),
)  # fmt: skip
