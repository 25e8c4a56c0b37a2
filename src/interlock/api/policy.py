"""Policies over HTTP: activate, read, roll back, and simulate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked, answer_once, caller_of, decide
from interlock.api.jobs import READERS, action_of, failure_view, job_view
from interlock.api.operations import Answer, Operation, Query, RawBody, Reply
from interlock.api.pages import LIMIT_MAX, PageQuery, id_cursor, position
from interlock.api.problem import ProblemError, problem
from interlock.kernel.codec.located import LocatedFault, SourceInvalid
from interlock.rooms.identity.model import PRINCIPALS, Principal, PrincipalKind
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs import queries as job_queries
from interlock.rooms.jobs.model import Job
from interlock.rooms.jobs.simulation import (
    Asking,
    Change,
    Compared,
    Explained,
    JobPortion,
    Said,
    compare,
    explain,
    explains_quickly,
    simulate,
)
from interlock.rooms.policy import queries
from interlock.rooms.policy.action import Priority
from interlock.rooms.policy.expressions import EVALUATION_SECONDS
from interlock.rooms.policy.judgement import SHORT_BYTES, TOO_LONG
from interlock.rooms.policy.language import ApprovalRequirement
from interlock.rooms.policy.model import PolicyHead, PolicySnapshot
from interlock.rooms.policy.parser import CheckedPolicy, check_policy
from interlock.rooms.policy.refusals import PolicyUnavailable, SimulationTooLong
from interlock.rooms.policy.rules import NO_POLICY, ActivatePolicy, RollBackPolicy
from interlock.service.compute_pool import ComputePool, TookTooLong
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import jobs as wire_jobs
from interlock.wire import policy as wire
from interlock.wire.fields import OMITTED, Page

_candidates = ThreadPoolExecutor(1, thread_name_prefix="policy-candidates")


async def read_policy(text: bytes, pool: ComputePool, tenant: str) -> CheckedPolicy:
    """The policy to be put in force with its warnings, or the problem that lists what is wrong with it."""
    return await _read(text, pool, tenant, None)


async def read_candidate(policy: Any, pool: ComputePool, tenant: str) -> CheckedPolicy:
    """A policy that is only asked about, as text or as an object, with its warnings."""
    text = policy.encode() if isinstance(policy, str) else msgspec.json.encode(policy)
    return await _read(text, pool, tenant, _candidates)


def remark(found: LocatedFault) -> wire.PolicyWarning:
    """An error or a warning as it goes over the wire."""
    return wire.PolicyWarning(path=found.path, reason=found.message, line=found.line, column=found.column)


async def _read(text: bytes, pool: ComputePool, tenant: str, thread: Executor | None) -> CheckedPolicy:
    if len(text) <= SHORT_BYTES:
        return _parsed(text)
    if pool.is_open:
        return await pool.run(tenant, len(text), _parsed, text)
    return await asyncio.get_running_loop().run_in_executor(thread, _parsed, text)


def _parsed(text: bytes) -> CheckedPolicy:
    try:
        return check_policy(text)
    except SourceInvalid as wrong:
        errors = [remark(each) for each in wrong.errors]
        first = wrong.errors[0]
        detail = f"line {first.line}, column {first.column}: {first.message}"
        raise ProblemError(problem("invalid_request", detail, members={"errors": errors})) from None


_TEXTS = (
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "text/plain",
    "application/json",
    "",
)


class PutQuery(Query, frozen=True, kw_only=True):
    expecting: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1,
                max_length=100,
                description="Only if this snapshot is in force now; otherwise 409 `conflict`, and nothing changes.",
            ),
        ]
        | None
    ) = None


async def activate(call: Asked[PutQuery, bytes]) -> Answer:
    text = call.body
    document, found = await read_policy(text, call.services.compute_pool, call.caller.tenant)
    warnings = tuple(remark(each) for each in found)
    command = msgspec.structs.replace(
        ActivatePolicy.of(document, text.decode(), tenant=call.caller.tenant, by=caller_of(call)),
        expecting=call.query.expecting,
    )
    source = command.source
    return await decide(call, command, lambda head: Reply(200, _head_view(head, source, warnings)))


async def in_force(call: Asked[None, None]) -> Reply:
    head = await queries.read_head(call.services.store, call.caller.tenant)
    if head is None:
        return Reply(200, _NO_POLICY_VIEW)
    kept = await queries.read_snapshot(call.services.store, head.tenant, head.snapshot)
    return Reply(200, _head_view(head, kept.source if kept else ""))


async def snapshots(call: Asked[PageQuery, None]) -> Reply:
    found = await queries.list_snapshots(
        call.services.store, call.caller.tenant, before=position(call.query.cursor), limit=call.query.limit
    )
    return Reply(
        200, Page(items=tuple(_snapshot_view(kept) for kept in found.items), next_cursor=found.next_cursor)
    )


async def snapshot(call: Asked[None, None]) -> Reply:
    kept = await queries.read_snapshot(call.services.store, call.caller.tenant, call.path["snapshot"])
    if kept is None:
        raise NotFound("policy snapshot", call.path["snapshot"])
    return Reply(200, _snapshot_view(kept))


async def roll_back(call: Asked[None, wire.RollbackBody]) -> Answer:
    command = RollBackPolicy(caller=caller_of(call), snapshot=call.body.snapshot)
    kept = await queries.read_snapshot(call.services.store, call.caller.tenant, call.body.snapshot)
    source = kept.source if kept else ""
    return await decide(call, command, lambda head: Reply(200, _head_view(head, source)))


async def evaluated(call: Asked[None, wire.EvaluateBody]) -> Answer | Reply:
    return await answer_once(call, lambda: _evaluated(call))


async def simulated(call: Asked[None, wire.SimulateBody]) -> Answer | Reply:
    return await answer_once(call, lambda: _simulated(call))


async def _evaluated(call: Asked[None, wire.EvaluateBody]) -> Reply:
    body = call.body
    head = await queries.read_head(call.services.store, call.caller.tenant)
    asking = Asking(
        tenant=call.caller.tenant,
        action=action_of(body),
        actor=await _actor(call, body.actor),
        priority=Priority(body.priority),
    )
    pool, tenant = call.services.compute_pool, call.caller.tenant
    candidate = (
        (await read_candidate(body.policy, pool, tenant)).document if body.policy is not None else None
    )
    if not pool.is_open or (candidate is None and explains_quickly(asking, head)):
        return Reply(200, _evaluation(explain(asking, head, candidate)))
    try:
        weight = len(asking.action.payload)
        explained = await pool.run(tenant, weight, explain, asking, head, candidate)
        return Reply(200, _evaluation(explained))
    except TookTooLong:
        raise PolicyUnavailable("policy", TOO_LONG) from None


async def _simulated(call: Asked[None, wire.SimulateBody]) -> Reply:
    pool, tenant = call.services.compute_pool, call.caller.tenant
    candidate, found = await read_candidate(call.body.policy, pool, tenant)
    store, last = call.services.store, call.body.last
    jobs = _LatestJobs(call.services, tenant, last, id_cursor(call.body.cursor, "job"))

    async def apart(held: JobPortion, seconds: float) -> Compared:
        try:
            return await pool.run(tenant, held.weight, compare, candidate, held, seconds)
        except TookTooLong:
            raise SimulationTooLong(0, last, EVALUATION_SECONDS) from None

    result = await simulate(
        candidate, jobs, store, last=last, apart=apart if pool.is_open else None, clock=time.process_time
    )
    return Reply(
        200,
        wire.Simulation(
            snapshot=result.snapshot,
            examined=result.examined,
            unchanged=result.examined - len(result.changes),
            changes=tuple(_change_view(each) for each in result.changes),
            warnings=tuple(remark(each) for each in found),
            next_cursor=jobs.next_cursor,
        ),
    )


class _LatestJobs:
    """Jobs, newest first, a page at a time: all of them may be more than there is memory for.

    `next_cursor` is where older ones begin, once all of these were taken.
    """

    def __init__(self, service: Service, tenant: str, last: int, before: str | None) -> None:
        self._service = service
        self._tenant = tenant
        self._last = last
        self.next_cursor = before

    async def __aiter__(self) -> AsyncGenerator[Job]:
        now, left = self._service.now(), self._last
        while left > 0:
            page = await job_queries.list_jobs(
                self._service.store,
                self._tenant,
                state=None,
                topic=None,
                now=now,
                before=self.next_cursor,
                limit=min(LIMIT_MAX, left),
            )
            for job in page.items:
                yield job
            left -= len(page.items)
            self.next_cursor = page.next_cursor
            if self.next_cursor is None:
                return


async def observed(call: Asked[PageQuery, None]) -> Reply:
    found = await job_queries.list_observed(
        call.services.store,
        call.caller.tenant,
        before=id_cursor(call.query.cursor, "job"),
        limit=call.query.limit,
    )
    return Reply(200, Page(items=tuple(job_view(job) for job in found.items), next_cursor=found.next_cursor))


async def _actor(call: Asked[None, wire.EvaluateBody], given: wire.ActorBody | None) -> Principal:
    caller = call.caller.who
    if given is None:
        return caller
    known = await call.services.store.get(PRINCIPALS, caller.tenant, given.id)
    nobody = Principal(
        tenant=caller.tenant, id=given.id, kind=PrincipalKind.AGENT, created_at=caller.created_at
    )
    kind = given.kind if isinstance(given.kind, msgspec.UnsetType) else PrincipalKind(given.kind)
    groups = given.groups if isinstance(given.groups, msgspec.UnsetType) else tuple(given.groups)
    owners = (
        given.owner if isinstance(given.owner, msgspec.UnsetType) else (given.owner,) if given.owner else ()
    )
    facts = {"kind": kind, "groups": groups, "owner": given.owner, "owners": owners}
    told = {name: value for name, value in facts.items() if value is not msgspec.UNSET}
    return msgspec.structs.replace(known or nobody, **told)


def _head_view(
    head: PolicyHead, source: str, warnings: tuple[wire.PolicyWarning, ...] = OMITTED
) -> wire.Policy:
    return wire.Policy(
        snapshot=head.snapshot,
        document=msgspec.Raw(head.document.encode()),
        source=source,
        activated_at=head.activated_at,
        activated_by=head.activated_by,
        previous=head.previous,
        created_at=OMITTED,
        created_by=OMITTED,
        warnings=warnings,
    )


def _snapshot_view(kept: PolicySnapshot) -> wire.Policy:
    return wire.Policy(
        snapshot=kept.id,
        document=msgspec.Raw(kept.document.encode()),
        source=kept.source,
        created_at=kept.created_at,
        created_by=kept.created_by,
        activated_at=OMITTED,
        activated_by=OMITTED,
        previous=OMITTED,
        warnings=OMITTED,
    )


def _evaluation(explained: Explained) -> wire.Evaluation:
    return wire.Evaluation(
        decision=explained.decision,
        rule=explained.rule,
        reason=explained.reason,
        snapshot=explained.snapshot,
        mode=explained.mode,
        approval=_requirement(explained.approval) if explained.approval else None,
        then=explained.then,
        trail=tuple(wire.Missed(rule=missed.rule, why=missed.why) for missed in explained.trail),
        failure=failure_view(explained.failure),
    )


def _requirement(asked: ApprovalRequirement) -> wire.Requirement:
    return wire.Requirement(
        quorum=asked.quorum,
        groups=asked.groups,
        self_approval=asked.self_approval,
        expires_in=asked.expires_in,
        on_expiry=asked.on_expiry,
        escalate=tuple(wire.RequirementStep(after=step.after, groups=step.groups) for step in asked.escalate),
        binding=asked.binding,
        require_hash=asked.require_hash,
        grace=asked.grace,
    )


def _change_view(change: Change) -> wire.Change:
    return wire.Change(
        job_id=change.job_id,
        topic=change.topic,
        before=_said(change.before),
        after=_said(change.after),
        differs=tuple(change.differs),
    )


def _said(said: Said) -> wire.Said:
    return wire.Said(decision=said.decision, rule=said.rule, failure=failure_view(said.failure))


_NO_POLICY_VIEW = wire.Policy(
    snapshot=NO_POLICY,
    document=msgspec.Raw(b'{"default":"deny","mode":"enforce","rules":[],"version":"v1"}'),
    source="",
    activated_at=None,
    activated_by=None,
    previous=None,
    created_at=OMITTED,
    created_by=OMITTED,
    warnings=OMITTED,
)
_TAG = "Policy"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="put_policy", method="PUT", path="/api/v1/policy", tag=_TAG, roles=("admin",),
        summary="Put a policy in force", description="YAML or JSON. Errors and warnings name line and column.",
        query=PutQuery, body=RawBody(_TEXTS), answers={200: wire.Policy}, answer=activate,
        problems=("people_only", "conflict"),
    ),
    Operation(
        id="get_policy", method="GET", path="/api/v1/policy", tag=_TAG, roles=READERS,
        summary="The policy in force", answers={200: wire.Policy}, answer=in_force,
    ),
    Operation(
        id="list_snapshots", method="GET", path="/api/v1/policy/snapshots", tag=_TAG, roles=READERS,
        summary="Every policy that was ever in force, newest first",
        query=PageQuery, answers={200: Page[wire.Policy]}, answer=snapshots,
    ),
    Operation(
        id="get_snapshot", method="GET", path="/api/v1/policy/snapshots/{snapshot}", tag=_TAG, roles=READERS,
        parameters={"snapshot": "sha256:… of the policy's canonical form."},
        summary="One policy by its content", answers={200: wire.Policy}, answer=snapshot,
    ),
    Operation(
        id="roll_back_policy", method="POST", path="/api/v1/policy/rollback", tag=_TAG, roles=("admin",),
        summary="Put an earlier policy back in force", body=wire.RollbackBody,
        answers={200: wire.Policy}, answer=roll_back, problems=("not_found", "conflict", "people_only"),
    ),
    Operation(
        id="evaluate_policy", method="POST", path="/api/v1/policy/evaluate", tag=_TAG, roles=READERS,
        summary="What would happen to this job, and why", body=wire.EvaluateBody,
        answers={200: wire.Evaluation}, answer=evaluated, problems=("policy_unavailable",),
    ),
    Operation(
        id="simulate_policy", method="POST", path="/api/v1/policy/simulate", tag=_TAG,
        roles=("admin", "operate", "audit", "review"),
        summary="What a candidate policy would have changed for the last jobs",
        body=wire.SimulateBody, answers={200: wire.Simulation}, answer=simulated, problems=("policy_unavailable",),
    ),
    Operation(
        id="list_observed", method="GET", path="/api/v1/policy/observed", tag=_TAG, roles=READERS,
        summary="Jobs released only because the policy was observing",
        query=PageQuery, answers={200: Page[wire_jobs.Job]}, answer=observed,
    ),
)  # fmt: skip
