"""Jobs over HTTP: submit, read, list, cancel, history."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from interlock.api.audit import entries_page, entry_query
from interlock.api.calls import JOB_ID, Asked, caller_of, decide
from interlock.api.operations import Answer, Operation, Query, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.api.problem import MEDIA_TYPE, invalid, problem
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.durations import duration_seconds
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.codec.visible import is_visible, unseen_in
from interlock.kernel.pages import Records
from interlock.kernel.storage import Store
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs import queries
from interlock.rooms.jobs.inbox_queries import Sought, search_jobs
from interlock.rooms.jobs.model import (
    GRANTED_LABEL,
    Approval,
    Evidence,
    Executor,
    Job,
    JobState,
    Revision,
    job_topic,
)
from interlock.rooms.jobs.rules import CancelJob, SubmitJob
from interlock.rooms.policy.action import Action, Failure, PeopleAsked, Priority, TargetRef
from interlock.rooms.policy.language import Decision
from interlock.rooms.policy.matching import topic_problem
from interlock.rooms.policy.refusals import PolicyThrottled, denial
from interlock.rooms.policy.rules import NO_POLICY
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import jobs as wire
from interlock.wire.events import AuditEntry
from interlock.wire.fields import LINE, OMITTED, Page, Text

_WAIT_SECONDS_MAX = 60
_POLL_SECONDS = 5.0
# What a reviewer's click may do: open a page or write a letter, never run a script or open a file.
_LINK_SCHEMES = ("http", "https", "mailto")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


class JobQuery(Query, frozen=True, kw_only=True):
    """With `wait_seconds`, the answer waits until the job is decided or finished."""

    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=_WAIT_SECONDS_MAX)] = 0
    until: Literal["decided", "finished"] = "decided"


class JobsQuery(PageQuery, frozen=True, kw_only=True):
    state: JobState | None = None
    topic: Annotated[Text, msgspec.Meta(description="A topic, or a pattern with `*` and `**`.")] | None = None
    q: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=200,
                description="Words that must all occur in the id, topic, env, submitter, target, labels or a payload "
                "of 16 KiB at most. A page may then have fewer items than were asked for, or none, and a "
                "`next_cursor` all the same.",
            ),
        ]
        | None
    ) = None


def action_of(body: wire.SubmitBody) -> Action:
    """The action that a submitted body proposes, its payload spelled canonically.

    Where it says where that happens, people must be able to see what it says.
    """
    if faults := _unseen_faults(body):
        raise invalid(*faults)
    return Action(
        topic=body.topic,
        payload=msgspec.Raw(canonical(body.payload)),
        env=body.env,
        channel=body.channel,
        # Interlock's own label says nothing if the submitter wrote it: not to the policy, and not in the hash.
        labels={name: text for name, text in body.labels.items() if name != GRANTED_LABEL},
        risk=(_line_of(body.risk),) if isinstance(body.risk, str) else tuple(body.risk),
        target=_target_of(body.target) if body.target else None,
        people=PeopleAsked(groups=tuple(body.approval.groups)) if body.approval else None,
    )


def _line_of(text: str) -> str:
    if not re.search(LINE, text):
        raise invalid(JsonFault("/risk", "holds a control character; send one line"))
    return text


def _unseen_faults(body: wire.SubmitBody) -> list[JsonFault]:
    """The fields that tell people where an action happens, if they hold what people cannot see."""
    named = {"/env": body.env, "/channel": body.channel} | {
        f"/labels/{name.replace('/', '~1')}": text for name, text in body.labels.items()
    }
    return [JsonFault(place, reason) for place, text in named.items() if (reason := unseen_fault(text))]


def _target_of(target: wire.JobTargetBody) -> TargetRef:
    version = target.version
    return TargetRef(key=target.key, version=None if version is None else version_text(version))


def _check(body: wire.SubmitBody) -> None:
    """Refuse evidence that shows nothing or misleads, and a job that would be over before it began."""
    faults = [
        JsonFault(f"/evidence/{place}", "needs content or url; without either there is nothing to look at")
        for place, each in enumerate(body.evidence)
        if each.content is None and each.url is None
    ]
    faults += [
        JsonFault(f"/evidence/{place}/url", reason)
        for place, each in enumerate(body.evidence)
        if each.url is not None and (reason := _link_fault(each.url))
    ]
    if body.expires_in is not None and duration_seconds(body.expires_in) == 0:
        faults.append(
            JsonFault("/expires_in", "must be at least a second; leave it out for a job without an end")
        )
    if faults:
        raise invalid(*faults)


async def submit(call: Asked[None, wire.SubmitBody]) -> Answer:
    body = call.body
    _check(body)
    command = SubmitJob(
        caller=caller_of(call),
        action=action_of(body),
        priority=Priority(body.priority),
        evidence=tuple(
            Evidence(title=e.title, kind=e.kind, content=e.content, url=e.url) for e in body.evidence
        ),
        expires_seconds=duration_seconds(body.expires_in) if body.expires_in is not None else None,
        max_attempts=body.max_attempts,
        run_id=body.run_id,
        executor=Executor(body.executor),
    )
    count = call.services.measures.submits.add
    try:
        return await decide(
            call,
            command,
            submitted,
            count=lambda job: count(job.verdict.observed or job.verdict.decision),
            keep_until=lambda job: job.decidable_until,
        )
    except PolicyThrottled:
        count(Decision.THROTTLE.value)
        call.services.admission_stats.count_throttled(call.caller.tenant, body.topic)
        raise


def submitted(job: Job) -> Reply | Answer:
    """201 released, 202 waiting for people, 403 denied (and kept)."""
    if job.state is JobState.DENIED:
        return denied(job)
    return Reply(202 if job.state is JobState.APPROVAL else 201, job_view(job))


def denied(job: Job) -> Answer:
    """The problem document of a denied job: committed like any other outcome, so it is replayed alike."""
    rule, reason = job.verdict.rule, job.verdict.reason
    said, then = denial(job.action.topic, rule, reason, has_rules=job.policy_snapshot != NO_POLICY)
    members = {
        "job_id": job.id,
        "state": job.state.value,
        "rule": rule,
        "reason": reason,
        "job_hash": job.job_hash,
        "policy_snapshot": job.policy_snapshot,
    }
    if (failure := job.verdict.failure) is not None:
        members |= {"expression": failure.expression, "field": failure.field, "cause": failure.why}
    refused = problem("policy_denied", said, then=then, members=members)
    return Answer(403, msgspec.json.encode(refused.document()), content_type=MEDIA_TYPE)


async def read(call: Asked[JobQuery, None]) -> Reply:
    job = await _awaited(call.services, call.caller.tenant, call.path["job_id"], call.query)
    return Reply(200, whole_view(job, call.services.now(), seen_by=call.caller.principal))


async def listed(call: Asked[JobsQuery, None]) -> Reply:
    now = call.services.now()
    jobs = await _found(call.services.store, call.caller.tenant, call.query, now)
    items = [job_view(job, now, seen_by=call.caller.principal) for job in jobs.items]
    return Reply(200, Page(items=tuple(items), next_cursor=jobs.next_cursor))


async def _found(store: Store, tenant: str, query: JobsQuery, now: datetime) -> Records[Job]:
    """One page of jobs. Words and patterns are searched for; a state and a topic have an index."""
    words = tuple((query.q or "").split())
    before = id_cursor(query.cursor, "job")
    is_pattern = query.topic is not None and "*" in query.topic
    if query.topic and is_pattern and (why := topic_problem(query.topic)) is not None:
        raise invalid(JsonFault("query/topic", why))
    if words or is_pattern:
        sought = Sought(words=words, topic=query.topic, state=query.state)
        return await search_jobs(store, tenant, sought, now=now, before=before, limit=query.limit)
    return await queries.list_jobs(
        store, tenant, state=query.state, topic=query.topic, now=now, before=before, limit=query.limit
    )


async def cancel(call: Asked[None, wire.CancelJobBody]) -> Answer:
    command = CancelJob(caller=caller_of(call), job_id=call.path["job_id"], reason=call.body.reason)
    return await decide(call, command, lambda job: Reply(200, job_view(job)))


async def history(call: Asked[PageQuery, None]) -> Reply:
    job = await queries.read_job(call.services.store, call.caller.tenant, call.path["job_id"])
    if job is None:
        raise NotFound("job", call.path["job_id"])
    return await entries_page(call, entry_query(call.query, subject=job.id))


async def _awaited(service: Service, tenant: str, job_id: str, query: JobQuery) -> Job:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + query.wait_seconds
    with service.kernel.wakes.subscribe(job_topic(tenant, job_id)) as woken:
        while True:
            job = await queries.read_job(service.store, tenant, job_id)
            if job is None:
                raise NotFound("job", job_id)
            left = deadline - loop.time()
            if left <= 0 or service.is_stopping or _is_over(job, query.until, service.now()):
                return job
            await woken.wait(min(left, _look_seconds(job, service.now())))


def _look_seconds(job: Job, now: datetime) -> float:
    """When to look again, though nobody says that something happened: a grace ends by itself."""
    grace_until = job.approval.grace_until if job.approval and job.is_in_grace_at(now) else None
    left = (grace_until - now).total_seconds() if grace_until else _POLL_SECONDS
    return min(_POLL_SECONDS, max(left, 0.01))


def _is_over(job: Job, until: str, now: datetime) -> bool:
    """Whether nobody has to decide any more, nor may take a decision back, or whether nothing more will happen."""
    if job.is_in_grace_at(now) and not job.is_over_at(now):
        return False
    waiting = {JobState.APPROVAL}
    if until == "finished":
        waiting |= {JobState.PENDING, JobState.RUNNING}
    return job.state_at(now) not in waiting


def job_view(job: Job, now: datetime | None = None, *, seen_by: str = "") -> wire.Job:
    """A job, without the versions it had before."""
    return wire.Job(**job_fields(job, now, seen_by=seen_by))


def whole_view(job: Job, now: datetime | None = None, *, seen_by: str = "") -> wire.Job:
    """A job with the versions it had before."""
    fields = job_fields(job, now, seen_by=seen_by)
    return wire.Job(**fields, revisions=tuple(_revision(old) for old in job.revisions))


def job_fields(job: Job, now: datetime | None = None, *, seen_by: str = "") -> dict[str, Any]:
    """Everything of a job that every view of it shows; with `now`, one past its time is shown as expired.

    The fence is shown to the job's holder, or its last one. `seen_by` is the caller.
    """
    action, target = job.action, job.action.target
    return {
        "id": job.id,
        "state": (job.state_at(now) if now else job.state).value,
        "topic": action.topic,
        "env": action.env,
        "channel": action.channel,
        "labels": _labels(job),
        "system_labels": job.system_labels,
        "risk": action.risk,
        "payload": action.payload,
        "target": wire.Target(key=target.key, version=target.version) if target else None,
        "evidence": evidence_view(job),
        "priority": job.priority.value,
        "job_hash": job.job_hash,
        "policy_snapshot": job.policy_snapshot,
        "decision": _verdict(job),
        "approval": approval_view(job.approval, now) if job.approval else None,
        "grant_use": _grant_use(job),
        "submitted_by": job.submitted_by,
        "submitted_at": job.submitted_at,
        "updated_at": job.updated_at,
        "expires_at": job.expires_at,
        "max_attempts": job.max_attempts,
        "run_id": job.run_id,
        "executor": job.executor.value,
        "version": job.version,
        "replayed": OMITTED,
    } | _attempt_fields(job, seen_by)


def _attempt_fields(job: Job, seen_by: str) -> dict[str, Any]:
    lease = job.lease if job.lease_until else None
    return {
        "attempt": job.attempt,
        "fence": job.fence if job.lease and job.lease.worker == seen_by else OMITTED,
        "leased_by": lease.worker if lease else None,
        "lease_expires_at": lease.expires_at if lease else None,
        "not_before": job.not_before,
        "held_up": job.held_up,
        "checkpoint": job.checkpoint,
        "result": job.result,
        "result_text": job.result_text,
        "error": job.error,
        "finished_at": job.finished_at,
    }


def approval_view(approval: Approval, now: datetime | None = None) -> wire.Approval:
    """An approval as it stands; with `now`, one past its time is shown as expired."""
    asked = approval.requirement
    return wire.Approval(
        state=(approval.state_at(now) if now else approval.state).value,
        rule=approval.rule,
        quorum=asked.quorum,
        groups=tuple(approval.groups_at(now) if now else asked.groups),
        self_approval=asked.self_approval,
        binding=asked.binding,
        require_hash=asked.require_hash,
        grace_seconds=asked.grace_seconds,
        on_expiry=asked.on_expiry,
        escalate=tuple(
            wire.Escalation(after_seconds=step.after_seconds, groups=step.groups) for step in asked.escalate
        ),
        votes=tuple(
            wire.Vote(
                principal=v.principal, at=v.at, reason=v.reason, note=v.note, groups=v.groups, via=v.via
            )
            for v in approval.votes
        ),
        requested_at=approval.requested_at,
        expires_at=approval.ends_at,
        policy_snapshot=approval.policy_snapshot,
        job_hash=approval.job_hash,
        round=approval.round,
        decision_id=approval.decision_id,
        decided_by=approval.decided_by,
        decided_at=approval.decided_at,
        decided_via=approval.decided_via,
        grace_until=approval.grace_until,
        in_grace=now is not None and approval.is_in_grace_at(now),
        reason=approval.reason,
        note=approval.note,
        code=approval.code,
    )


def _labels(job: Job) -> dict[str, str]:
    # Only Interlock says that people approved: the same label in an older row is not shown.
    given = {name: value for name, value in job.action.labels.items() if name != GRANTED_LABEL}
    return given | job.system_labels


def evidence_view(job: Job) -> tuple[wire.Evidence, ...]:
    return tuple(
        wire.Evidence(title=e.title, kind=e.kind, content=e.content, url=e.url) for e in job.evidence
    )


def _grant_use(job: Job) -> wire.JobGrantUse | None:
    used = job.grant_use
    if used is None:
        return None
    return wire.JobGrantUse(grant_id=used.grant_id, use=used.use, groups=used.requirement.groups)


def _verdict(job: Job) -> wire.Decision:
    verdict = job.verdict
    return wire.Decision(
        rule=verdict.rule,
        decision=verdict.decision,
        reason=verdict.reason,
        observed=verdict.observed,
        failure=failure_view(verdict.failure),
    )


def failure_view(failure: Failure | None) -> wire.Failure | None:
    """Why a rule's expression gave no answer; the field is named only if it is known."""
    if failure is None:
        return None
    field = OMITTED if failure.field is None else failure.field
    return wire.Failure(expression=failure.expression, why=failure.why, field=field)


def _revision(old: Revision) -> wire.Revision:
    return wire.Revision(
        payload=old.action.payload,
        job_hash=old.job_hash,
        policy_snapshot=old.policy_snapshot,
        approval=approval_view(old.approval) if old.approval else None,
        replaced_at=old.replaced_at,
        replaced_by=old.replaced_by,
        why=old.why,
    )


READERS = ("submit", "work", "review", "operate", "audit", "admin")


def _link_fault(url: str) -> str | None:
    """Why people may not be shown this link, if so."""
    if unseen := unseen_in(url):
        return f"holds {', '.join(unseen[:5])}, which cannot be seen; percent-encode it"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "has no scheme; begin it with https://, http:// or mailto:"
    if scheme[1].lower() not in _LINK_SCHEMES:
        return f"has the scheme {scheme[1][:50]!r}; send a link with http, https or mailto"
    return None


def unseen_fault(text: str) -> str | None:
    """Why this text cannot name something for people, if so."""
    if is_visible(text):
        return None
    unseen = ", ".join(unseen_in(text)[:5])
    return f"holds {unseen}, which cannot be seen or turns the text around it; leave it out"


def version_text(version: str | float) -> str:
    """A version as it is kept and compared: a number as JSON spells it, so that 3 and "3" are the same."""
    return version if isinstance(version, str) else canonical(version).decode()


_TAG = "Jobs"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="submit_job", method="POST", path="/api/v1/jobs", tag=_TAG, roles=("submit",),
        summary="Propose an action",
        description="The policy decides at once: 201 released, 202 waiting for people, 403 denied, "
        "429 throttled.",
        body=wire.SubmitBody, answers={201: wire.Job, 202: wire.Job}, answer=submit,
        problems=("policy_denied", "policy_throttled", "policy_unavailable"),
        example={"topic": "finance.payment.execute", "env": "production", "payload": {"amount_cents": 25000}},
    ),
    Operation(
        id="list_jobs", method="GET", path="/api/v1/jobs", tag=_TAG, roles=READERS,
        summary="List jobs, newest first", query=JobsQuery, answers={200: Page[wire.Job]}, answer=listed,
    ),
    Operation(
        id="get_job", method="GET", path="/api/v1/jobs/{job_id}", tag=_TAG, roles=READERS, parameters=JOB_ID,
        summary="Read a job, or wait for it", query=JobQuery, answers={200: wire.Job}, answer=read,
    ),
    Operation(
        id="cancel_job", method="POST", path="/api/v1/jobs/{job_id}/cancel", tag=_TAG, parameters=JOB_ID,
        summary="Withdraw a job that has not finished", roles=("submit", "operate", "admin"),
        body=wire.CancelJobBody, answers={200: wire.Job}, answer=cancel, problems=("not_actionable",),
    ),
    Operation(
        id="job_history", method="GET", path="/api/v1/jobs/{job_id}/history", tag=_TAG, roles=READERS,
        parameters=JOB_ID, summary="Everything that happened to a job, newest first",
        query=PageQuery, answers={200: Page[AuditEntry]}, answer=history,
    ),
)  # fmt: skip
