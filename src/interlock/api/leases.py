"""Leases over HTTP: acquire, renew, checkpoint, suspend, hand off, release, check."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from interlock.api.jobs import READERS, Text
from interlock.api.listing import Page, PageQuery
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.codec.canonical import canonical
from interlock.identity.refusals import NotFound
from interlock.kernel.ids import new_id
from interlock.leases import queries
from interlock.leases.acquiring import Acquired, AcquireLease, LeaveLeaseLine
from interlock.leases.model import Checkpoint, Lease, LeaseTerms, Mode, lease_topic, path_of
from interlock.leases.refusals import LeaseHeld
from interlock.leases.rules import (
    Checked,
    CheckLease,
    HandOffLease,
    ReleaseLease,
    RenewLease,
    ResumeLease,
    SaveCheckpoint,
    SetLeaseTerms,
    SuspendLease,
)
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

_POLL_SECONDS = 1.0
_CHECKPOINT_BYTES_MAX = 64 * 1024

Resource = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\u0000-\u001f]*$")]
Fence = Annotated[int, msgspec.Meta(ge=0)]


class AcquireBody(Body, frozen=True, kw_only=True):
    """With `wait_seconds` the caller waits in line. `session` tells apart several workers of one principal."""

    resource: Resource
    purpose: Text = ""
    mode: Mode = Mode.EXCLUSIVE
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 60
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0
    session: Text = ""


class FenceBody(Body, frozen=True, kw_only=True):
    fence: Fence


class RenewBody(FenceBody, frozen=True, kw_only=True):
    progress: Any = None


class CheckpointBody(FenceBody, frozen=True, kw_only=True):
    """What is done, what is half done, and what a successor should know."""

    done: Any
    partial: Any = None
    evidence: Any = None
    validation: Any = None
    open_questions: Any = None


class SuspendBody(FenceBody, frozen=True, kw_only=True):
    reason: Literal["waiting_on_review", "paused_by_policy"]


class HandOffBody(FenceBody, frozen=True, kw_only=True):
    """Without `to`, whoever comes next gets it. `checkpoint` is what they start from."""

    to: Text | None = None
    checkpoint: Any = None


class TermsBody(Body, frozen=True, kw_only=True):
    """`progress_after`: how often a lease may be renewed without progress; null for any number."""

    ttl_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3600
    suspend_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=7 * 86_400)] = 86_400
    progress_after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None


class LeasesQuery(PageQuery, frozen=True, kw_only=True):
    resource: Resource | None = None
    owner: Text | None = None
    live: bool = False


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: datetime
    by: str
    done: msgspec.Raw
    partial: msgspec.Raw
    evidence: msgspec.Raw
    validation: msgspec.Raw
    open_questions: msgspec.Raw


class PredecessorView(msgspec.Struct, frozen=True, kw_only=True):
    """Who had it before, how it ended, and how far they got."""

    lease_id: str
    owner: str
    ended: str
    ended_at: datetime | None
    checkpoint: CheckpointView | None


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """A lease. `state` is by the clock: past `expires_at` it is `stale`."""

    lease_id: str
    resource: str
    mode: str
    state: str
    fence: int
    owner: str
    session: str
    purpose: str
    ttl_seconds: int
    since: datetime
    expires_at: datetime
    renewals: int
    progress: msgspec.Raw
    suspended_for: str
    conflict_id: str | None
    checkpoint: CheckpointView | None
    ended_at: datetime | None
    handed_to: str | None
    predecessor: PredecessorView | None = None


class CheckedView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a sink may write under this fence."""

    current: bool
    state: str
    fence: int
    current_fence: int
    owner: str
    expires_at: datetime


class TermsView(msgspec.Struct, frozen=True, kw_only=True):
    ttl_seconds_max: int
    suspend_seconds_max: int
    progress_after: int | None


class WaiterView(msgspec.Struct, frozen=True, kw_only=True):
    resource: str
    principal: str
    mode: str
    since: datetime


class WaitersView(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WaiterView]


async def acquire(call: Asked[None, AcquireBody]) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever it may have come free."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + call.body.wait_seconds
    command = _acquire_command(call)
    topic = lease_topic(call.caller.tenant, path_of(call.body.resource)[0])
    with call.services.kernel.wakes.subscribe(topic) as woken:
        while True:
            try:
                return await decide(call, command, lambda got: Reply(201, _acquired_view(got)))
            except LeaseHeld as held:
                left = deadline - loop.time()
                if left <= 0:
                    await _leave(call, command)
                    raise
                await woken.wait(min(left, _POLL_SECONDS, held.retry_after_seconds))


def _acquire_command(call: Asked[None, AcquireBody]) -> AcquireLease:
    body = call.body
    return AcquireLease(
        caller=caller_of(call),
        lease_id=new_id("lse"),
        resource=body.resource,
        mode=body.mode,
        purpose=body.purpose,
        session=body.session,
        ttl_seconds=body.ttl_seconds,
        ticket=_ticket(call) if body.wait_seconds > 0 else None,
    )


def _ticket(call: Asked[None, AcquireBody]) -> str:
    """A repeat under the same idempotency key keeps its place in line."""
    if call.idempotency_key is None:
        return new_id("tkt")
    scope = "\0".join((call.caller.principal, call.body.resource, call.idempotency_key))
    return f"tkt_{hashlib.sha256(scope.encode()).hexdigest()[:32]}"


async def _leave(call: Asked[None, AcquireBody], command: AcquireLease) -> None:
    if command.ticket is not None:
        left = LeaveLeaseLine(caller=command.caller, resource=command.resource, ticket=command.ticket)
        await call.services.kernel.run(left)


async def renew(call: Asked[None, RenewBody]) -> Answer:
    lease = await _read(call)
    command = RenewLease(**_own(call, lease), progress=_kept(call.body.progress))
    return await decide(call, command, lambda renewed: Reply(200, lease_view(renewed)))


async def checkpoint(call: Asked[None, CheckpointBody]) -> Answer:
    lease, body = await _read(call), call.body
    command = SaveCheckpoint(
        **_own(call, lease),
        done=_kept(body.done),
        partial=_kept(body.partial),
        evidence=_kept(body.evidence),
        validation=_kept(body.validation),
        open_questions=_kept(body.open_questions),
    )
    return await decide(call, command, lambda saved: Reply(200, lease_view(saved)))


async def suspend(call: Asked[None, SuspendBody]) -> Answer:
    lease = await _read(call)
    command = SuspendLease(**_own(call, lease), reason=call.body.reason)
    return await decide(call, command, lambda suspended: Reply(200, lease_view(suspended)))


async def resume(call: Asked[None, FenceBody]) -> Answer:
    command = ResumeLease(**_own(call, await _read(call)))
    return await decide(call, command, lambda resumed: Reply(200, lease_view(resumed)))


async def hand_off(call: Asked[None, HandOffBody]) -> Answer:
    lease = await _read(call)
    command = HandOffLease(**_own(call, lease), to=call.body.to, done=_kept(call.body.checkpoint))
    return await decide(call, command, lambda given: Reply(200, lease_view(given)))


async def release(call: Asked[None, FenceBody]) -> Answer:
    command = ReleaseLease(**_own(call, await _read(call)))
    return await decide(call, command, lambda released: Reply(200, lease_view(released)))


async def check(call: Asked[None, FenceBody]) -> Reply:
    command = CheckLease(**_own(call, await _read(call)))
    return Reply(200, _checked_view(await call.services.kernel.run(command), call.body.fence))


async def read(call: Asked[None, None]) -> Reply:
    lease = await _read(call)
    before = None
    if lease.predecessor:
        before = await queries.read_lease(call.services.store, lease.tenant, lease.predecessor)
    return Reply(200, lease_view(lease, before))


async def listed(call: Asked[LeasesQuery, None]) -> Reply:
    query, store, tenant = call.query, call.services.store, call.caller.tenant
    if query.live:
        found = await queries.list_live(store, tenant, before=query.cursor, limit=query.limit)
    else:
        found = await queries.list_leases(
            store, tenant, resource=query.resource, owner=query.owner, before=query.cursor, limit=query.limit
        )
    return Reply(200, Page(items=[lease_view(each) for each in found.items], next_cursor=found.next_cursor))


async def waiting(call: Asked[None, None]) -> Reply:
    now = datetime.now(UTC)
    nodes = await queries.list_lines(call.services.store, call.caller.tenant, limit=200)
    items = [
        WaiterView(
            resource=f"{node.id}/**" if place.tree else node.id,
            principal=place.principal,
            mode=place.mode.value,
            since=place.since,
        )
        for node in nodes
        for place in node.waiting_at(now)
    ]
    return Reply(200, WaitersView(items=items))


async def set_terms(call: Asked[None, TermsBody]) -> Answer:
    body = call.body
    command = SetLeaseTerms(
        caller=caller_of(call),
        ttl_seconds_max=body.ttl_seconds_max,
        suspend_seconds_max=body.suspend_seconds_max,
        progress_after=body.progress_after,
    )
    return await decide(call, command, lambda terms: Reply(200, _terms_view(terms)))


async def terms(call: Asked[None, None]) -> Reply:
    return Reply(200, _terms_view(await queries.read_terms(call.services.store, call.caller.tenant)))


def _own(call: Asked[None, Any], lease: Lease) -> dict[str, Any]:
    return {
        "caller": caller_of(call),
        "lease_id": lease.id,
        "resource": lease.resource,
        "fence": call.body.fence,
    }


async def _read(call: Asked[Any, Any]) -> Lease:
    lease = await queries.read_lease(call.services.store, call.caller.tenant, call.path["lease_id"])
    if lease is None:
        raise NotFound("lease", call.path["lease_id"])
    return lease


def _kept(value: Any) -> msgspec.Raw:
    return msgspec.Raw(canonical(value))


def _acquired_view(got: Acquired) -> LeaseView:
    return lease_view(got.lease, got.predecessor)


def lease_view(lease: Lease, predecessor: Lease | None = None) -> LeaseView:
    """A lease as it stands by this server's clock, which is only for showing."""
    return LeaseView(
        lease_id=lease.id,
        resource=lease.resource,
        mode=lease.mode.value,
        state=lease.state_at(datetime.now(UTC)).value,
        fence=lease.fence,
        owner=lease.owner,
        session=lease.session,
        purpose=lease.purpose,
        ttl_seconds=lease.ttl_seconds,
        since=lease.since,
        expires_at=lease.expires_at,
        renewals=lease.renewals,
        progress=lease.progress,
        suspended_for=lease.suspended_for,
        conflict_id=lease.conflict_id,
        checkpoint=_checkpoint_view(lease.checkpoint),
        ended_at=lease.ended_at,
        handed_to=lease.handed_to,
        predecessor=_predecessor_view(predecessor),
    )


def _predecessor_view(lease: Lease | None) -> PredecessorView | None:
    if lease is None:
        return None
    return PredecessorView(
        lease_id=lease.id,
        owner=lease.owner,
        ended=lease.state_at(datetime.now(UTC)).value,
        ended_at=lease.ended_at,
        checkpoint=_checkpoint_view(lease.checkpoint),
    )


def _checkpoint_view(saved: Checkpoint | None) -> CheckpointView | None:
    if saved is None:
        return None
    return CheckpointView(
        number=saved.number,
        at=saved.at,
        by=saved.by,
        done=saved.done,
        partial=saved.partial,
        evidence=saved.evidence,
        validation=saved.validation,
        open_questions=saved.open_questions,
    )


def _checked_view(checked: Checked, fence: int) -> CheckedView:
    return CheckedView(
        current=checked.current,
        state=checked.state.value,
        fence=fence,
        current_fence=checked.current_fence,
        owner=checked.lease.owner,
        expires_at=checked.lease.expires_at,
    )


def _terms_view(terms: LeaseTerms) -> TermsView:
    return TermsView(
        ttl_seconds_max=terms.ttl_seconds_max,
        suspend_seconds_max=terms.suspend_seconds_max,
        progress_after=terms.progress_after,
    )


_TAG = "Leases"
_OWNERS = ("submit", "work", "review", "operate", "admin")
_ID = {"lease_id": "The id that acquiring the lease returned."}
_STALE = ("fence_stale", "not_actionable")


def _verb(verb: str, summary: str, body: type[Body], answer: Any) -> Operation[Known, Service, Any, Any]:
    return Operation(
        id=f"{verb}_lease", method="POST", path=f"/api/v1/leases/{{lease_id}}/{verb}", tag=_TAG, roles=_OWNERS,
        parameters=_ID, summary=summary, body=body, answers={200: LeaseView}, answer=answer, problems=_STALE,
    )  # fmt: skip


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="acquire_lease", method="POST", path="/api/v1/leases", tag=_TAG, roles=_OWNERS,
        summary="Take a resource if it is free", body=AcquireBody, answers={201: LeaseView}, answer=acquire,
        problems=("lock_busy", "invalid_request"),
    ),
    Operation(
        id="list_leases", method="GET", path="/api/v1/leases", tag=_TAG, roles=READERS,
        summary="Leases, newest first", query=LeasesQuery, answers={200: Page[LeaseView]}, answer=listed,
    ),
    Operation(
        id="lease_waiters", method="GET", path="/api/v1/leases/waiting", tag=_TAG, roles=READERS,
        summary="Who waits for what", answers={200: WaitersView}, answer=waiting,
    ),
    Operation(
        id="get_lease_terms", method="GET", path="/api/v1/leases/terms", tag=_TAG, roles=READERS,
        summary="What this tenant asks of lease holders", answers={200: TermsView}, answer=terms,
    ),
    Operation(
        id="set_lease_terms", method="PUT", path="/api/v1/leases/terms", tag=_TAG, roles=("operate", "admin"),
        summary="Change what this tenant asks of lease holders", body=TermsBody,
        answers={200: TermsView}, answer=set_terms,
    ),
    Operation(
        id="get_lease", method="GET", path="/api/v1/leases/{lease_id}", tag=_TAG, roles=READERS,
        parameters=_ID, summary="Read a lease", answers={200: LeaseView}, answer=read,
    ),
    _verb("renew", "Keep the resource for another period", RenewBody, renew),
    _verb("checkpoint", "Record how far the work has come", CheckpointBody, checkpoint),
    _verb("suspend", "Wait for a person without renewing", SuspendBody, suspend),
    _verb("resume", "Go on after a suspension", FenceBody, resume),
    _verb("handoff", "Give it to somebody else, with a checkpoint", HandOffBody, hand_off),
    _verb("release", "Give the resource back", FenceBody, release),
    Operation(
        id="check_lease", method="POST", path="/api/v1/leases/{lease_id}/check", tag=_TAG, roles=READERS,
        parameters=_ID, summary="Tell a sink whether a fence is current", body=FenceBody,
        answers={200: CheckedView}, answer=check,
    ),
)  # fmt: skip
