"""Claimed jobs over HTTP: renew, complete, fail, release; and retry of a dead letter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.api.calls import JOB_ID, Asked, caller_of, decide, departure, sleep
from interlock.api.effects import evidence_of
from interlock.api.jobs import job_fields, job_view
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.problem import ProblemError, invalid, problem
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.wakes import QueuePlace
from interlock.rooms.effects.model import Outcome, downstream_key, id_of_call
from interlock.rooms.jobs.claims import Claimed, ClaimJob, ClaimJobs, NothingToClaim
from interlock.rooms.jobs.holds import (
    CompleteJob,
    FailJob,
    HolderCommand,
    ReleaseJob,
    RenewJob,
)
from interlock.rooms.jobs.model import Job, JobState, claims_group
from interlock.rooms.jobs.queries import topics_to_claim
from interlock.rooms.jobs.refusals import FenceStale
from interlock.rooms.jobs.rules import RetryJob
from interlock.rooms.jobs.settlement import ReconcileCall
from interlock.rooms.policy.matching import topic_problem, topic_test
from interlock.service.keyring import Known
from interlock.service.permits import CurrentSigner
from interlock.service.service import Service
from interlock.wire import jobs as wire

_WAIT_SECONDS_MAX = 60
# Workers are woken; this covers a lost wake-up, and work that time alone makes ready.
_POLL_SECONDS = 1.0
# Where one found work there may be more of it.
_CALLED_BY_THE_LUCKY = 2


async def claim(call: Asked[None, wire.ClaimJobsBody]) -> Answer | Reply:
    """Hand out work, or wait for some. An empty answer is not kept, so the same call may be made again."""
    _check_topics(call.body.topics)
    service = call.services
    signer = await service.permits.ready()
    began = asyncio.get_running_loop().time()
    with _lined_up(call) as place:
        found, may_be_more = await _claim_now(call, signer)
        if found is None and (may_be_more or call.body.wait_seconds):
            found = await _claim_later(call, signer, place, began, may_be_more)
    if found is None:
        service.measures.work.claims.add("empty")
        return Reply(200, wire.Claimed())
    return found


async def _claim_later(
    call: Asked[None, wire.ClaimJobsBody],
    signer: CurrentSigner,
    place: QueuePlace,
    began: float,
    may_be_more: bool,
) -> Answer | None:
    """Ask again until there is work or the wait is over. A caller that hung up is given none: nobody would do it."""
    service, now = call.services, asyncio.get_running_loop().time
    deadline = began + call.body.wait_seconds
    # A caller that does not wait also gets past jobs that may no longer run, for as long as any call may take.
    clearing = max(deadline, began + service.settings.acquire_seconds)
    async with departure(call.request) as gone:
        while True:
            left = (clearing if may_be_more else deadline) - now()
            if left <= 0 or service.is_stopping:
                return None
            if not may_be_more:
                await sleep(min(left, place.look_seconds(_POLL_SECONDS)), place, gone)
            if gone.is_set():
                place.pass_on(1)
                return None
            service.measures.work.looks.add()
            found, may_be_more = await _claim_now(call, signer)
            if found is not None:
                place.pass_on(_CALLED_BY_THE_LUCKY)
                return found


def _lined_up(call: Asked[None, wire.ClaimJobsBody]) -> QueuePlace:
    topics = call.body.topics
    exact = tuple(topic for topic in topics if "*" not in topic)
    patterns = {topic: topic_test(topic) for topic in topics if "*" in topic}
    return call.services.kernel.wakes.lines.line_up(claims_group(call.caller.tenant), exact, patterns)


async def _claim_now(
    call: Asked[None, wire.ClaimJobsBody], signer: CurrentSigner
) -> tuple[Answer | None, bool]:
    """What there is now, or None, and then whether something was in the way that no longer is."""
    service, body = call.services, call.body
    topics = await topics_to_claim(service.store, call.caller.tenant, body.topics, service.now())
    # Under a key the kernel is asked even so: it knows whether this was answered before.
    if not topics and call.idempotency_key is None:
        return None, False
    command = ClaimJobs(
        caller=caller_of(call),
        topics=topics,
        most=body.max,
        lease_seconds=body.lease_seconds,
        backoff=service.settings.backoff(),
    )

    def render(claimed: tuple[Claimed, ...]) -> Reply:
        return Reply(200, wire.Claimed(jobs=tuple(held_view(each.job, signer) for each in claimed)))

    def count(claimed: tuple[Claimed, ...]) -> None:
        for each in claimed:
            service.measures.work.claimed(each.waited_seconds)

    try:
        return await decide(call, command, render, count=count), False
    except NothingToClaim as nothing:
        return None, bool(nothing.blocked)


async def claim_one(call: Asked[None, wire.ClaimJobBody]) -> Answer:
    service = call.services
    signer = await service.permits.ready()
    command = ClaimJob(
        caller=caller_of(call),
        job_id=call.path["job_id"],
        lease_seconds=call.body.lease_seconds,
        backoff=service.settings.backoff(),
        repeatable=call.body.repeatable,
    )
    return await decide(
        call,
        command,
        lambda claimed: Reply(200, held_view(claimed.job, signer)),
        count=lambda claimed: service.measures.work.claimed(claimed.waited_seconds),
    )


def held_view(job: Job, signer: CurrentSigner) -> wire.HeldJob:
    """A job as its holder gets it."""
    key = downstream_key(job.tenant, id_of_call(job.id)) if job.is_call else None
    holder = job.lease.worker if job.lease else ""
    return wire.HeldJob(**job_fields(job, seen_by=holder), permit=signer.permit(job), downstream_key=key)


def _check_topics(topics: list[str]) -> None:
    faults = [
        JsonFault(path=f"/topics/{n}", reason=wrong)
        for n, topic in enumerate(topics)
        if (wrong := topic_problem(topic)) is not None
    ]
    if faults:
        raise invalid(*faults)


_TAG = "Workers"

_CLAIMS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="claim_jobs", method="POST", path="/api/v1/jobs/claim", tag=_TAG, roles=("work",),
        summary="Take the next jobs of some topics, or wait for one",
        description="Higher priorities first, then the jobs that waited longest; fewer than `max` where they are "
        "large. Empty after `wait_seconds`.",
        body=wire.ClaimJobsBody, answers={200: wire.Claimed}, answer=claim,
        example={"topics": ["finance.payment.*"], "max": 1, "lease_seconds": 30, "wait_seconds": 20},
    ),
    Operation(
        id="claim_job", method="POST", path="/api/v1/jobs/{job_id}/claim", tag=_TAG, roles=("work", "submit"),
        parameters=JOB_ID, summary="Take one job by its id: any worker, or its own submitter",
        description="The job of a gated call (`executor` \"caller\") is its submitter's alone; taking it begins its "
        "effect.",
        body=wire.ClaimJobBody, answers={200: wire.HeldJob}, answer=claim_one,
        problems=(
            "conflict", "not_actionable", "policy_denied", "policy_unavailable", "effect_in_progress",
            "effect_ambiguous", "in_grace",
        ),
    ),
)  # fmt: skip


_CHECKPOINT_BYTES_MAX = 64 * 1024
_RESULT_BYTES_MAX = 256 * 1024
_ERROR_BYTES_MAX = 16 * 1024


async def renew(call: Asked[None, wire.RenewJobBody]) -> Answer:
    body = call.body
    checkpoint = _within(call, "checkpoint", body.checkpoint, _CHECKPOINT_BYTES_MAX)
    signer = await call.services.permits.ready()
    command = RenewJob(
        **_holder(call, body.fence), backoff=call.services.settings.backoff(), checkpoint=checkpoint
    )
    return await _held(call, command, lambda job: Reply(200, _renewed(job, signer)))


async def complete(call: Asked[None, wire.CompleteJobBody]) -> Answer:
    body = call.body
    result = _within(call, "result", body.result, _RESULT_BYTES_MAX)
    command = CompleteJob(**_holder(call, body.fence), result=result, result_text=body.result_text)
    return await _finished(call, command)


async def fail(call: Asked[None, wire.FailJobBody]) -> Answer:
    body = call.body
    error = _within(call, "error", body.error, _ERROR_BYTES_MAX)
    command = FailJob(
        **_holder(call, body.fence),
        backoff=call.services.settings.backoff(),
        error=error,
        retryable=body.retryable,
    )
    return await _finished(call, command)


async def release(call: Asked[None, wire.ReleaseJobBody]) -> Answer:
    body = call.body
    checkpoint = _within(call, "checkpoint", body.checkpoint, _CHECKPOINT_BYTES_MAX)
    command = ReleaseJob(**_holder(call, body.fence), checkpoint=checkpoint)
    return await _finished(call, command)


async def retry(call: Asked[None, wire.RetryJobBody]) -> Answer:
    command = RetryJob(caller=caller_of(call), job_id=call.path["job_id"], reason=call.body.reason)
    return await decide(call, command, lambda job: Reply(200, job_view(job, seen_by=call.caller.principal)))


async def reconcile(call: Asked[None, wire.ReconcileJobBody]) -> Answer:
    body = call.body
    _check_size(call, "result", body.result, _RESULT_BYTES_MAX)
    command = ReconcileCall(
        caller=caller_of(call),
        job_id=call.path["job_id"],
        outcome=Outcome(body.outcome),
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


def _renewed(job: Job, signer: CurrentSigner) -> wire.Renewed:
    if job.lease is None:
        raise ValueError(f"{job.id} was renewed without a lease")
    return wire.Renewed(
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

_HOLDERS = ("work", "submit")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    *_CLAIMS,
    Operation(
        id="renew_job", method="POST", path="/api/v1/jobs/{job_id}/renew", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Keep a job for another lease's length; leave a checkpoint",
        body=wire.RenewJobBody, answers={200: wire.Renewed}, answer=renew, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="complete_job", method="POST", path="/api/v1/jobs/{job_id}/complete", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Say that a job is done",
        body=wire.CompleteJobBody, answers={200: wire.Job}, answer=complete, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="fail_job", method="POST", path="/api/v1/jobs/{job_id}/fail", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Say that a job did not succeed, and whether to try again",
        body=wire.FailJobBody, answers={200: wire.Job}, answer=fail, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="release_job", method="POST", path="/api/v1/jobs/{job_id}/release", tag=_TAG, roles=_HOLDERS,
        parameters=JOB_ID, summary="Give a job back without counting an attempt",
        body=wire.ReleaseJobBody, answers={200: wire.Job}, answer=release, problems=("fence_stale", "too_large"),
    ),
    Operation(
        id="retry_job", method="POST", path="/api/v1/jobs/{job_id}/retry", tag=_TAG, parameters=JOB_ID,
        roles=("submit", "operate", "admin"), summary="Put a dead letter back; of several callers one wins",
        body=wire.RetryJobBody, answers={200: wire.Job}, answer=retry, problems=("not_actionable",),
    ),
    Operation(
        id="reconcile_job", method="POST", path="/api/v1/jobs/{job_id}/reconcile", tag=_TAG, parameters=JOB_ID,
        roles=("submit",), summary="Say what the remote side told you about your own call in doubt",
        description="For the submitter of a gated call (`executor` \"caller\"). Committed: the job is done, with "
        "`result`. Not committed: it may be claimed again. Other callers resolve the call's effect.",
        body=wire.ReconcileJobBody, answers={200: wire.Job}, answer=reconcile,
        problems=("not_actionable", "effect_in_progress", "too_large"),
    ),
)  # fmt: skip
