"""Leases over HTTP: acquire, renew, checkpoint, suspend, hand off, release, check."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from datetime import datetime
from typing import Any, cast

import msgspec

from interlock.api.calls import Asked, caller_of, decide, departure, sleep
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Fault, Refusal
from interlock.kernel.wakes import Subscription
from interlock.kernel.world import Command
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.leases import queries
from interlock.rooms.leases.acquisition import AcquireLease
from interlock.rooms.leases.lines import LeaveLeaseLine, ticket_topic
from interlock.rooms.leases.model import Checkpoint, Lease, LeaseHeld, LeaseMode, LeaseTerms, SetLeaseTerms
from interlock.rooms.leases.rules import CheckedLease, CheckLease, RenewLease, ResumeLease, SuspendLease
from interlock.rooms.leases.transfers import (
    CHECKPOINTS_KEPT,
    Content,
    HandOffLease,
    ReleaseLease,
    SaveCheckpoint,
)
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import leases as wire
from interlock.wire.fields import OMITTED, Body, Page, Text

# Well within a place's lifetime, which each try renews.
_POLL_SECONDS = 1.5


class LeasesQuery(PageQuery, frozen=True, kw_only=True):
    """`live`: only those that hold their resource by now."""

    resource: wire.Resource | None = None
    owner: Text | None = None
    live: bool = False


async def acquire(call: Asked[None, wire.AcquireLeaseBody]) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever it may have come free."""
    command = _acquire_command(call)
    if command.ticket is None:
        return await _try(call, command)
    topic = ticket_topic(command.ticket)
    with call.services.kernel.wakes.subscribe(topic) as woken:
        async with departure(call.request) as gone:
            return await _wait(call, command, woken, gone)


async def _wait(
    call: Asked[None, wire.AcquireLeaseBody], command: AcquireLease, woken: Subscription, gone: asyncio.Event
) -> Answer:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + call.body.wait_seconds
    while True:
        try:
            return await _try(call, command)
        except Refusal as refused:
            left = deadline - loop.time()
            # Nobody is there to be given it: those behind must not wait for a lifetime that nobody uses.
            is_over = left <= 0 or gone.is_set() or call.services.is_stopping
            if not isinstance(refused, LeaseHeld) or is_over:
                await _leave(call, command)
                raise
            await sleep(min(left, _POLL_SECONDS, refused.retry_after_seconds), woken, gone)


async def _try(call: Asked[None, wire.AcquireLeaseBody], command: AcquireLease) -> Answer:
    return await decide(call, command, lambda got: Reply(201, lease_view(got.lease, got.predecessor)))


def _acquire_command(call: Asked[None, wire.AcquireLeaseBody]) -> AcquireLease:
    body = call.body
    return AcquireLease(
        caller=caller_of(call),
        resource=body.resource,
        mode=LeaseMode(body.mode),
        purpose=body.purpose,
        session=body.session,
        ttl_seconds=body.ttl_seconds,
        ticket=_ticket(call) if body.wait_seconds > 0 else None,
    )


def _ticket(call: Asked[None, wire.AcquireLeaseBody]) -> str:
    """A repeat under the same idempotency key keeps its place in line."""
    if call.idempotency_key is None:
        return new_id("tkt")
    scope = "\0".join((call.caller.principal, call.body.resource, call.idempotency_key))
    return f"tkt_{hashlib.sha256(scope.encode()).hexdigest()[:32]}"


async def _leave(call: Asked[None, wire.AcquireLeaseBody], command: AcquireLease) -> None:
    if command.ticket is not None:
        left = LeaveLeaseLine(caller=command.caller, resource=command.resource, ticket=command.ticket)
        # A place that cannot be given up now is given up by the clock.
        with contextlib.suppress(Fault):
            await call.services.kernel.run(left)


_LINES_MAX = 200


async def renew(call: Asked[None, wire.RenewLeaseBody]) -> Answer:
    lease = await _read(call)
    return await _decide(call, RenewLease(**_own(call, lease), progress=_kept(call.body.progress)))


async def checkpoint(call: Asked[None, wire.CheckpointBody]) -> Answer:
    lease = await _read(call)
    return await _decide(call, SaveCheckpoint(**_own(call, lease), content=_content_of(call.body)))


_FIELDS = ("done", "partial", "evidence", "validation", "open_questions")


def _content_of(body: wire.CheckpointBody) -> Content:
    return _content({name: getattr(body, name) for name in _FIELDS})


def _handed_content(checkpoint: Any) -> Content | None:
    """What a hand-off leaves behind: a checkpoint's fields, a plain value for what is done, or nothing new."""
    if checkpoint is None:
        return None
    if isinstance(checkpoint, dict):
        fields = cast("dict[str, Any]", checkpoint)
        if "done" in fields and set(fields) <= set(_FIELDS):
            return _content(fields)
    return _content({"done": checkpoint})


def _kept(value: Any) -> msgspec.Raw:
    """A caller's value as it is stored."""
    return msgspec.Raw(canonical(value))


def _content(fields: dict[str, Any]) -> Content:
    return Content(**{name: _kept(value) for name, value in fields.items()})


async def suspend(call: Asked[None, wire.SuspendLeaseBody]) -> Answer:
    lease = await _read(call)
    return await _decide(call, SuspendLease(**_own(call, lease), reason=call.body.reason))


async def resume(call: Asked[None, wire.ResumeLeaseBody]) -> Answer:
    return await _decide(call, ResumeLease(**_own(call, await _read(call))))


async def hand_off(call: Asked[None, wire.HandOffLeaseBody]) -> Answer:
    lease, body = await _read(call), call.body
    command = HandOffLease(**_own(call, lease), to=body.to, content=_handed_content(body.checkpoint))
    return await _decide(call, command)


async def release(call: Asked[None, wire.LeaseFenceBody]) -> Answer:
    return await _decide(call, ReleaseLease(**_own(call, await _read(call))))


async def check(call: Asked[None, wire.CheckFenceBody]) -> Answer:
    lease, fence = await _read(call), call.body.fence
    command = CheckLease(caller=caller_of(call), lease_id=lease.id, resource=lease.resource, fence=fence)
    return await decide(
        call, command, lambda checked: Reply(200, checked_view(checked, fence, call.caller.principal))
    )


async def read(call: Asked[None, None]) -> Reply:
    lease = await _read(call)
    before = await _predecessor(call, lease)
    return Reply(200, shown_view(lease, call.services.now(), call.caller.principal, before))


async def _predecessor(call: Asked[Any, Any], lease: Lease) -> Lease | None:
    if lease.predecessor is None:
        return None
    return await queries.read_lease(call.services.store, lease.tenant, lease.predecessor)


async def checkpoints(call: Asked[None, None]) -> Reply:
    lease = await _read(call)
    found = await queries.list_checkpoints(
        call.services.store, lease.tenant, lease.id, limit=CHECKPOINTS_KEPT + 1
    )
    shown = tuple(view for saved in found if (view := checkpoint_view(saved)))
    return Reply(200, wire.Checkpoints(items=shown))


async def listed(call: Asked[LeasesQuery, None]) -> Reply:
    query, now = call.query, call.services.now()
    found = await queries.list_leases(
        call.services.store,
        call.caller.tenant,
        live_at=now if query.live else None,
        resource=query.resource,
        owner=query.owner,
        before=id_cursor(query.cursor, "lse"),
        limit=query.limit,
    )
    items = [
        shown_view(lease, now, call.caller.principal, await _predecessor(call, lease))
        for lease in found.items
    ]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def waiting(call: Asked[None, None]) -> Reply:
    now = call.services.now()
    nodes = await queries.list_lines(call.services.store, call.caller.tenant, limit=_LINES_MAX)
    items = tuple(
        wire.Waiter(
            resource=place.resource,
            principal=place.principal,
            mode=place.mode.value,
            since=place.since,
            purpose=place.purpose,
            kept=place.kept,
        )
        for node in nodes
        for place in node.waiting_at(now)
    )
    return Reply(200, wire.Waiters(items=items))


async def set_terms(call: Asked[None, wire.LeaseTermsBody]) -> Answer:
    body = call.body
    command = SetLeaseTerms(
        caller=caller_of(call),
        ttl_seconds_max=body.ttl_seconds_max,
        suspend_seconds_max=body.suspend_seconds_max,
        progress_after=body.progress_after,
    )
    return await decide(call, command, lambda terms: Reply(200, terms_view(terms)))


async def terms(call: Asked[None, None]) -> Reply:
    return Reply(200, terms_view(await queries.read_terms(call.services.store, call.caller.tenant)))


def _own(call: Asked[None, Any], lease: Lease) -> dict[str, Any]:
    fence = call.body.fence
    return {
        "caller": caller_of(call),
        "lease_id": lease.id,
        "resource": lease.resource,
        "fence": lease.fence if fence is None else fence,
        "session": call.body.session,
    }


async def _decide(call: Asked[None, Any], command: Command[Lease]) -> Answer:
    return await decide(call, command, lambda decided: Reply(200, lease_view(decided)))


async def _read(call: Asked[Any, Any]) -> Lease:
    lease = await queries.read_lease(call.services.store, call.caller.tenant, call.path["lease_id"])
    if lease is None:
        raise NotFound("lease", call.path["lease_id"])
    return lease


def shown_view(lease: Lease, now: datetime, seen_by: str, predecessor: Lease | None = None) -> wire.Lease:
    """A lease as `seen_by` sees it by this server's clock, which is only for showing."""
    fence = lease.fence if lease.owner == seen_by else OMITTED
    state = lease.state_at(now).value
    return msgspec.structs.replace(lease_view(lease, predecessor), state=state, fence=fence)


def lease_view(lease: Lease, predecessor: Lease | None = None) -> wire.Lease:
    """A lease as its owner just decided it, by the store's clock."""
    return wire.Lease(
        lease_id=lease.id,
        resource=lease.resource,
        mode=lease.mode.value,
        state=lease.state.value,
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
        suspended_at=lease.suspended_at,
        conflict_id=lease.conflict_id,
        checkpoint=checkpoint_view(lease.checkpoint),
        ended_at=lease.ended_at,
        handed_to=lease.handed_to,
        predecessor=_predecessor_view(predecessor),
    )


def _predecessor_view(lease: Lease | None) -> wire.Predecessor | None:
    if lease is None:
        return None
    return wire.Predecessor(
        lease_id=lease.id,
        owner=lease.owner,
        ended=lease.state.value,
        ended_at=lease.ended_at,
        checkpoint=checkpoint_view(lease.checkpoint),
    )


def checkpoint_view(saved: Checkpoint | None) -> wire.Checkpoint | None:
    if saved is None:
        return None
    return wire.Checkpoint(
        number=saved.number,
        at=saved.at,
        by=saved.by,
        done=saved.done,
        partial=saved.partial,
        evidence=saved.evidence,
        validation=saved.validation,
        open_questions=saved.open_questions,
    )


def checked_view(checked: CheckedLease, fence: int, seen_by: str) -> wire.CheckedFence:
    return wire.CheckedFence(
        current=checked.current,
        state=checked.state.value,
        fence=fence,
        current_fence=checked.current_fence if checked.lease.owner == seen_by else OMITTED,
        owner=checked.lease.owner,
        expires_at=checked.lease.expires_at,
    )


def terms_view(terms: LeaseTerms) -> wire.LeaseTerms:
    return wire.LeaseTerms(
        ttl_seconds_max=terms.ttl_seconds_max,
        suspend_seconds_max=terms.suspend_seconds_max,
        progress_after=terms.progress_after,
    )


_TAG = "Leases"
_OWNERS = ("submit", "work", "review", "operate", "admin")
_ID = {"lease_id": "The id that acquiring the lease returned."}
_STALE = ("fence_stale", "not_actionable", "too_large")


def _verb(verb: str, summary: str, body: type[Body], answer: Any) -> Operation[Known, Service, Any, Any]:
    return Operation(
        id=f"{verb}_lease", method="POST", path=f"/api/v1/leases/{{lease_id}}/{verb}", tag=_TAG, roles=_OWNERS,
        parameters=_ID, summary=summary, body=body, answers={200: wire.Lease}, answer=answer, problems=_STALE,
    )  # fmt: skip


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="acquire_lease", method="POST", path="/api/v1/leases", tag=_TAG, roles=_OWNERS,
        summary="Take a resource if it is free", body=wire.AcquireLeaseBody, answers={201: wire.Lease}, answer=acquire,
        problems=("lock_busy", "invalid_request"),
    ),
    Operation(
        id="list_leases", method="GET", path="/api/v1/leases", tag=_TAG, roles=READERS,
        summary="Leases, newest first", query=LeasesQuery, answers={200: Page[wire.Lease]}, answer=listed,
    ),
    Operation(
        id="lease_waiters", method="GET", path="/api/v1/leases/waiting", tag=_TAG, roles=READERS,
        summary="Who waits for what", answers={200: wire.Waiters}, answer=waiting,
    ),
    Operation(
        id="get_lease_terms", method="GET", path="/api/v1/leases/terms", tag=_TAG, roles=READERS,
        summary="What this tenant asks of lease holders", answers={200: wire.LeaseTerms}, answer=terms,
    ),
    Operation(
        id="set_lease_terms", method="PUT", path="/api/v1/leases/terms", tag=_TAG, roles=("operate", "admin"),
        summary="Change what this tenant asks of lease holders", body=wire.LeaseTermsBody,
        answers={200: wire.LeaseTerms}, answer=set_terms,
    ),
    Operation(
        id="get_lease", method="GET", path="/api/v1/leases/{lease_id}", tag=_TAG, roles=READERS,
        parameters=_ID, summary="Read a lease", answers={200: wire.Lease}, answer=read,
    ),
    Operation(
        id="lease_checkpoints", method="GET", path="/api/v1/leases/{lease_id}/checkpoints", tag=_TAG,
        roles=READERS, parameters=_ID, summary="The last checkpoints of a lease, newest first",
        answers={200: wire.Checkpoints}, answer=checkpoints,
    ),
    _verb("renew", "Keep the resource for another period", wire.RenewLeaseBody, renew),
    _verb("checkpoint", "Record how far the work has come", wire.CheckpointBody, checkpoint),
    _verb("suspend", "Wait for a person without renewing", wire.SuspendLeaseBody, suspend),
    _verb("resume", "Go on after a suspension", wire.ResumeLeaseBody, resume),
    _verb("handoff", "Give it to another principal, with a checkpoint", wire.HandOffLeaseBody, hand_off),
    _verb("release", "Give the resource back", wire.LeaseFenceBody, release),
    Operation(
        id="check_lease", method="POST", path="/api/v1/leases/{lease_id}/check", tag=_TAG, roles=READERS,
        parameters=_ID, summary="Tell a sink whether a fence is current",
        description="A repeat under its `Idempotency-Key` is told what was current then: to know it now, send none.",
        body=wire.CheckFenceBody,
        answers={200: wire.CheckedFence}, answer=check,
    ),
)  # fmt: skip
