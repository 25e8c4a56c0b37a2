"""Starting a run over HTTP: at once, or in line.

429 means that the gate was evaluated and is full; 503 that it could not be evaluated. Neither creates anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Annotated, Any

import msgspec

from interlock.admission.model import place_topic
from interlock.admission.refusals import GateFull, GateUnavailable
from interlock.admission.rules import LeaveLine, StartRun
from interlock.api.admission_views import run_view
from interlock.api.authentication import presented_key
from interlock.api.decoding import Spelled
from interlock.api.http import Request
from interlock.api.operations import Answer, Body, Reply
from interlock.api.service_calls import REPLAYED, Asked, caller_of, decide
from interlock.codec.canonical import canonical
from interlock.codec.durations import TtlSeconds
from interlock.identity.refusals import Unauthenticated
from interlock.kernel.ids import new_id
from interlock.kernel.refusal import Fault, LockBusy, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.kernel.wakes import Subscription
from interlock.runtime.service import Service
from interlock.workflows.rules import StartWorkflowRun

NAME = r"[A-Za-z0-9_.:\-]{1,200}"
TTL_SECONDS_DEFAULT = 60
# A place in line lapses after `TICKET_SECONDS`; whoever waits comes back several times before that.
_POLL_SECONDS = (1.2, 1.5)
_REST_SECONDS_EACH, _REST_SECONDS_MAX = 0.01, 1.0


class StartBody(Body, frozen=True, kw_only=True):
    """`ttl_seconds` is how long the slot is kept without renewing; with `wait_seconds` the caller waits in line."""

    input: Spelled = None
    ttl_seconds: TtlSeconds = TTL_SECONDS_DEFAULT
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0


async def start(call: Asked[None, StartBody], workflow: str) -> Answer:
    """Start a run of `workflow`, and count how that ended."""
    return await counted(call, workflow, _start_or_wait(call, workflow))


async def counted(call: Asked[None, Any], workflow: str, starting: Awaitable[Answer]) -> Answer:
    """Await a start of `workflow` and count how it ended; a gate that could not be asked is told as such."""
    stats, tenant = call.services.admission_stats, call.caller.tenant
    try:
        answer = await starting
    except GateFull:
        stats.count(tenant, workflow, "full")
        raise
    except (Fault, StoreDown) as fault:
        stats.count(tenant, workflow, "unavailable")
        if isinstance(fault, LockBusy | StoreUnavailable):
            raise GateUnavailable(
                f"the gate could not be evaluated: {fault.detail}",
                retry_after_seconds=fault.retry_after_seconds,
            ) from fault
        raise
    if answer.headers != REPLAYED:
        stats.count(tenant, workflow, "admitted")
    return answer


def is_name(text: str) -> bool:
    """Whether a workflow can be called so."""
    return re.fullmatch(NAME, text) is not None


def count_unheard(error: Exception, request: Request, path: Mapping[str, str], service: Service) -> None:
    """Count a start that did not come as far as the gate: in an outage no other comes.

    Whose it was is known only of a key that came before.
    """
    if not isinstance(error, Fault | StoreDown) or not is_name(path["workflow"]):
        return
    with contextlib.suppress(Unauthenticated):
        if caller := service.keyring.last_known(presented_key(request)):
            service.admission_stats.count(caller.tenant, path["workflow"], "unavailable")


async def _start_or_wait(call: Asked[None, StartBody], workflow: str) -> Answer:
    """Try once; with `wait_seconds`, keep a place in line and try again whenever a slot may have come free."""
    command = _start_command(call, workflow)
    if command.ticket is None:
        return await _start_now(call, command)
    async with _standing(call, command.ticket) as place:
        while True:
            try:
                return await _start_now(call, command)
            except GateFull as full:
                if full.is_line_full or not await place.wait(full.waiting):
                    await _leave(call, command)
                    raise


async def _start_now(call: Asked[None, StartBody], command: StartRun) -> Answer:
    whole = StartWorkflowRun(start=command)
    return await decide(call, whole, lambda run: Reply(201, run_view(run, call.caller.principal)))


def _start_command(call: Asked[None, StartBody], workflow: str) -> StartRun:
    body = call.body
    return StartRun(
        caller=caller_of(call),
        workflow=workflow,
        call_id=new_id("call"),
        ttl_seconds=body.ttl_seconds,
        input=msgspec.Raw(canonical(body.input)),
        ticket=_ticket(call, workflow) if body.wait_seconds > 0 else None,
    )


def _ticket(call: Asked[None, StartBody], workflow: str) -> str:
    """A repeat under the same idempotency key keeps its place in line."""
    if call.idempotency_key is None:
        return new_id("tkt")
    scope = "\0".join((call.caller.principal, workflow, call.idempotency_key))
    return f"tkt_{hashlib.sha256(scope.encode()).hexdigest()[:32]}"


class _Place:
    """Where one call waits: until it is woken, asks again by itself, gives up, or its client leaves."""

    def __init__(self, call: Asked[None, StartBody], woken: Subscription, gone: asyncio.Task[None]) -> None:
        self._service = call.services
        self._deadline = asyncio.get_running_loop().time() + call.body.wait_seconds
        self._woken = woken
        self._gone = gone
        self._was_woken = False

    async def wait(self, ahead: int) -> bool:
        """Wait for the next try; False if there is to be none.

        Whoever was woken in vain rests, the longer the more are ahead: on a file that several servers share
        every commit of another one wakes everybody.
        """
        left = self._deadline - asyncio.get_running_loop().time()
        if left > 0 and not self._service.is_stopping:
            poll = min(left, random.uniform(*_POLL_SECONDS))
            rest = min(ahead * _REST_SECONDS_EACH, _REST_SECONDS_MAX, poll) if self._was_woken else 0
            if rest:
                await asyncio.wait({self._gone}, timeout=rest)
            self._was_woken = await self._woken.wait(poll - rest)
        return left > 0 and not self._gone.done() and not self._service.is_stopping


@contextlib.asynccontextmanager
async def _standing(call: Asked[None, StartBody], ticket: str) -> AsyncGenerator[_Place]:
    gone = asyncio.create_task(_until_gone(call))
    try:
        with call.services.kernel.wakes.subscribe(place_topic(call.caller.tenant, ticket)) as woken:
            yield _Place(call, woken, gone)
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _until_gone(call: Asked[None, StartBody]) -> None:
    if call.request.gone is None:
        await asyncio.Event().wait()
    else:
        await call.request.gone()


async def _leave(call: Asked[None, StartBody], command: StartRun) -> None:
    """Give the place up. A stopping server leaves it to the repeat; what cannot be given up lapses by itself."""
    if command.ticket is not None and not call.services.is_stopping:
        leaving = LeaveLine(caller=command.caller, ticket=command.ticket, call_id=command.call_id)
        with contextlib.suppress(Fault):
            await call.services.kernel.run(leaving)
