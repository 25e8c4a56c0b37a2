"""Waiting in line for a lease, for as long as whoever asked is still there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib

from interlock.api.departing import departure, sleep
from interlock.api.lease_bodies import AcquireBody
from interlock.api.lease_views import acquired_view
from interlock.api.operations import Answer, Reply
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Fault, Refusal
from interlock.kernel.wakes import Subscription
from interlock.leases.acquiring import AcquireLease
from interlock.leases.lines import ticket_topic
from interlock.leases.refusals import LeaseHeld
from interlock.leases.waiting import LeaveLeaseLine

# Well within a place's lifetime, which each try renews.
_POLL_SECONDS = 1.5


async def acquire(call: Asked[None, AcquireBody]) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever it may have come free."""
    command = _acquire_command(call)
    if command.ticket is None:
        return await _try(call, command)
    topic = ticket_topic(command.ticket)
    with call.services.kernel.wakes.subscribe(topic) as woken:
        async with departure(call.request) as gone:
            return await _wait(call, command, woken, gone)


async def _wait(
    call: Asked[None, AcquireBody], command: AcquireLease, woken: Subscription, gone: asyncio.Event
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


async def _try(call: Asked[None, AcquireBody], command: AcquireLease) -> Answer:
    return await decide(call, command, lambda got: Reply(201, acquired_view(got)))


def _acquire_command(call: Asked[None, AcquireBody]) -> AcquireLease:
    body = call.body
    return AcquireLease(
        caller=caller_of(call),
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
        # A place that cannot be given up now is given up by the clock.
        with contextlib.suppress(Fault):
            await call.services.kernel.run(left)
