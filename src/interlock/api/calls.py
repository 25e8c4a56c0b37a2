"""How routes use the service: the types of a call, and `decide`, which runs a command idempotently."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Generic, Never, TypeAlias, TypeVar

import msgspec

from interlock.api.app import encode
from interlock.api.operations import Answer, Call, Reply
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.idempotency import Once, Rendered
from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.wakes import QueuePlace, Subscription
from interlock.kernel.world import Command, World
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.rules import caller_reads, identify
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire.http import Request

T = TypeVar("T")
Q = TypeVar("Q")
B = TypeVar("B")

Asked: TypeAlias = Call[Known, Service, Q, B]
Render: TypeAlias = Callable[[T], Reply | Answer]

REPLAYED = (("idempotency-replayed", "true"),)
JOB_ID = {"job_id": "The id that submitting the job returned."}


def caller_of(call: Call[Known, Service, Any, Any]) -> Caller:
    """Who calls, as a command names them: with the request's id, so that the audit leads to the log, and what this
    server lets services do.
    """
    return msgspec.structs.replace(
        call.caller.caller,
        request_id=call.request_id,
        services_may_administer=call.services.settings.services_may_administer,
        via=call.via,
    )


def named(call: Call[Any, Any, Any, Any], parameter: str, kind: Any, reason: str) -> str:
    """What the path has for `parameter`, if a body could have it too: `kind` is its type there."""
    try:
        return msgspec.convert(call.path[parameter], kind)
    except msgspec.ValidationError:
        raise invalid(JsonFault(f"path/{parameter}", reason)) from None


async def decide(
    call: Call[Known, Service, Any, Any],
    command: Command[T],
    render: Render[T],
    *,
    count: Callable[[T], None] | None = None,
    keep_until: Callable[[T], datetime | None] | None = None,
) -> Answer:
    """Run a command through the kernel; under an idempotency key its answer is kept and given again.

    `count` is told the result once it has committed, and not of repeats. `keep_until` says how long the
    answer must be kept at least.
    """
    service = call.services
    rendering = _Rendering(render, keep_until)
    weight = len(call.request.body)
    if call.idempotency_key is None:
        rendered = rendering(await service.kernel.run(command, weight=weight))
    else:
        once = _once(call, command, rendering, call.idempotency_key)
        rendered = await service.kernel.run(once, weight=weight)
    if rendered.replayed:
        service.measures.replays.add()
    elif count is not None:
        count(rendering.result)
    return _answer(rendered)


async def refuse(call: Call[Known, Service, Any, Any], refusal: Refusal) -> Answer:
    """Refuse for what is not there any more, unless this was answered before under its idempotency key."""
    if call.idempotency_key is None:
        raise refusal
    return await decide(call, _Refuse(caller=caller_of(call), refusal=refusal), lambda never: never)


async def answer_once(
    call: Call[Known, Service, Any, Any], answer: Callable[[], Awaitable[Reply]]
) -> Answer | Reply:
    """Answer what no command decides. Under an idempotency key the first answer is kept, as any other; else nothing is.

    What was answered before is looked for first: to find an answer may take long, or be noticed elsewhere.
    """
    if call.idempotency_key is None:
        return await answer()
    try:
        return await refuse(call, _NotAnswered())
    except _NotAnswered:
        reply = await answer()
    return await decide(call, _Keep(caller=caller_of(call)), lambda _: reply)


class _NotAnswered(Refusal):
    """Nothing was answered under this key yet."""


class _Keep(Command[None], frozen=True, kw_only=True):
    caller: Caller

    def reads(self) -> Reads:
        return caller_reads(self.caller)

    def decide(self, world: World) -> None:
        identify(world, self.caller)


class _Refuse(Command[Never], frozen=True, kw_only=True):
    caller: Caller
    refusal: Refusal

    def reads(self) -> Reads:
        return caller_reads(self.caller)

    def decide(self, world: World) -> Never:
        raise self.refusal


class _Rendering(Generic[T]):
    """Renders a result and remembers it. A batch may be decided again; the last time is what committed."""

    result: T

    def __init__(self, render: Render[T], keep_until: Callable[[T], datetime | None] | None) -> None:
        self._render = render
        self._keep_until = keep_until

    def __call__(self, result: T) -> Rendered:
        self.result = result
        reply = self._render(result)
        until = self._keep_until(result) if self._keep_until else None
        if isinstance(reply, Answer):
            return Rendered(reply.status, reply.body, content_type=reply.content_type, keep_until=until)
        return Rendered(reply.status, encode(reply.value), keep_until=until)


def _once(
    call: Call[Known, Service, Any, Any], command: Command[T], rendering: _Rendering[T], key: str
) -> Once[T]:
    caller = caller_of(call)
    return Once(
        inner=command,
        tenant=call.caller.tenant,
        answer_id=_scope(call, key),
        request_digest=call.request_digest(),
        keep_for=timedelta(days=call.services.settings.idempotency_days),
        render=rendering,
        check=lambda world: identify(world, caller),
    )


def _scope(call: Call[Known, Service, Any, Any], key: str) -> str:
    """Tenant + principal + operation + key; the tenant is part of the record's own key."""
    scope = "\0".join((call.caller.principal, call.operation_id, key))
    return hashlib.sha256(scope.encode()).hexdigest()


def _answer(rendered: Rendered) -> Answer:
    headers = REPLAYED if rendered.replayed else ()
    return Answer(rendered.status, rendered.body, headers, rendered.content_type)


@contextlib.asynccontextmanager
async def departure(request: Request) -> AsyncGenerator[asyncio.Event]:
    """An event that is set when the client goes away."""
    gone = asyncio.Event()

    async def watch() -> None:
        if request.gone is not None:
            await request.gone()
            gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()


async def sleep(seconds: float, woken: Subscription | QueuePlace, gone: asyncio.Event) -> None:
    """Wait until woken, until the client leaves, or until the time has passed."""
    waits = [asyncio.create_task(woken.wait(seconds)), asyncio.create_task(gone.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
    finally:
        for task in waits:
            task.cancel()
