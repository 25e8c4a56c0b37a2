"""Claiming work over HTTP: the next jobs of some topics, or one job by its id."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from interlock.api.departing import departure, sleep
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.problem import invalid
from interlock.api.service_calls import JOB_ID, Asked, caller_of, decide
from interlock.api.views import JobView, job_fields
from interlock.codec.strict import Fault
from interlock.effects.model import downstream_key, id_of_call
from interlock.jobs.claiming import CLAIM_MAX, Claimed, ClaimJob, ClaimJobs, NothingToClaim
from interlock.jobs.leasing import LEASE_SECONDS_DEFAULT, LEASE_SECONDS_MAX
from interlock.jobs.model import Job, claims_group
from interlock.jobs.queries import topics_to_claim
from interlock.kernel.lines import Place
from interlock.policy.matching import topic_problem, topic_test
from interlock.runtime.keyring import Known
from interlock.runtime.permits import Signer
from interlock.runtime.service import Service

_WAIT_SECONDS_MAX = 60
# Workers are woken; this covers a lost wake-up, and work that time alone makes ready.
_POLL_SECONDS = 1.0
# Where one found work there may be more of it.
_CALLED_BY_THE_LUCKY = 2

Seconds = (
    Annotated[int, msgspec.Meta(ge=1, le=LEASE_SECONDS_MAX)]
    | Annotated[float, msgspec.Meta(gt=0, le=LEASE_SECONDS_MAX)]
)
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ClaimBody(Body, frozen=True, kw_only=True):
    """Topics are exact or globs (`finance.payment.*`, `finance.**`)."""

    topics: Annotated[list[Pattern], msgspec.Meta(min_length=1, max_length=32)]
    max: Annotated[int, msgspec.Meta(ge=1, le=CLAIM_MAX)] = 1
    lease_seconds: Seconds = LEASE_SECONDS_DEFAULT
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=_WAIT_SECONDS_MAX)] = 0


class ClaimOneBody(Body, frozen=True, kw_only=True):
    """`repeatable` says of a gated call that it may run again after a crash; else a crash leaves it in doubt."""

    lease_seconds: Seconds = LEASE_SECONDS_DEFAULT
    repeatable: bool = False


class HeldJobView(JobView, frozen=True, kw_only=True):
    """A job that the caller holds. `permit` proves it to tools, until `lease_expires_at`.

    `downstream_key` is for the remote side of a gated call: the same for every attempt.
    """

    permit: str
    downstream_key: str | None = None


class ClaimedView(msgspec.Struct, frozen=True, kw_only=True):
    jobs: list[HeldJobView]


async def claim(call: Asked[None, ClaimBody]) -> Answer | Reply:
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
        return Reply(200, ClaimedView(jobs=[]))
    return found


async def _claim_later(
    call: Asked[None, ClaimBody], signer: Signer, place: Place, began: float, may_be_more: bool
) -> Answer | None:
    """Ask again until there is work or the wait is over. Whoever left is given none: nobody would do it."""
    service, now = call.services, asyncio.get_running_loop().time
    deadline = began + call.body.wait_seconds
    # Whoever does not wait gets past what may no longer run, too, for as long as any call may take.
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


def _lined_up(call: Asked[None, ClaimBody]) -> Place:
    topics = call.body.topics
    exact = tuple(topic for topic in topics if "*" not in topic)
    patterns = {topic: topic_test(topic) for topic in topics if "*" in topic}
    return call.services.kernel.wakes.lines.line_up(claims_group(call.caller.tenant), exact, patterns)


async def _claim_now(call: Asked[None, ClaimBody], signer: Signer) -> tuple[Answer | None, bool]:
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
        return Reply(200, ClaimedView(jobs=[held_view(each.job, signer) for each in claimed]))

    def count(claimed: tuple[Claimed, ...]) -> None:
        for each in claimed:
            service.measures.work.claimed(each.waited_seconds)

    try:
        return await decide(call, command, render, count=count), False
    except NothingToClaim as nothing:
        return None, bool(nothing.blocked)


async def claim_one(call: Asked[None, ClaimOneBody]) -> Answer:
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


def held_view(job: Job, signer: Signer) -> HeldJobView:
    """A job as its holder gets it."""
    key = downstream_key(job.tenant, id_of_call(job.id)) if job.is_call else None
    holder = job.lease.worker if job.lease else ""
    return HeldJobView(**job_fields(job, seen_by=holder), permit=signer.permit(job), downstream_key=key)


def _check_topics(topics: list[str]) -> None:
    faults = [
        Fault(path=f"/topics/{n}", reason=wrong)
        for n, topic in enumerate(topics)
        if (wrong := topic_problem(topic)) is not None
    ]
    if faults:
        raise invalid(*faults)


_TAG = "Workers"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="claim_jobs", method="POST", path="/api/v1/jobs/claim", tag=_TAG, roles=("work",),
        summary="Take the next jobs of some topics, or wait for one",
        description="Higher priorities first, then whoever waited longest; fewer than `max` where they are large. "
        "Empty after `wait_seconds`.",
        body=ClaimBody, answers={200: ClaimedView}, answer=claim,
        example={"topics": ["finance.payment.*"], "max": 1, "lease_seconds": 30, "wait_seconds": 20},
    ),
    Operation(
        id="claim_job", method="POST", path="/api/v1/jobs/{job_id}/claim", tag=_TAG, roles=("work", "submit"),
        parameters=JOB_ID, summary="Take one job by its id: any worker, or its own submitter",
        description="The job of a gated call (`executor` \"caller\") is its submitter's alone; taking it begins its "
        "effect.",
        body=ClaimOneBody, answers={200: HeldJobView}, answer=claim_one,
        problems=(
            "conflict", "not_actionable", "policy_denied", "policy_unavailable", "effect_in_progress",
            "effect_ambiguous",
        ),
    ),
)  # fmt: skip
