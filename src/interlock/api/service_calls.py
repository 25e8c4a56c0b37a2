"""How room routes reach the service: the types of a call, and `decide`, which runs a command idempotently."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

import msgspec

from interlock.api.app import encode
from interlock.api.operations import Answer, Call, Reply
from interlock.identity.model import Caller
from interlock.kernel.command import Command
from interlock.kernel.idempotency import Once, Rendered
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

T = TypeVar("T")
Q = TypeVar("Q")
B = TypeVar("B")

Asked: TypeAlias = Call[Known, Service, Q, B]
Render: TypeAlias = Callable[[T], Reply | Answer]

JOB_ID = {"job_id": "The id that submitting the job returned."}


def caller_of(call: Call[Known, Service, Any, Any]) -> Caller:
    """Who calls, as a command names them: with the request's id, so that the audit leads to the log."""
    return msgspec.structs.replace(call.caller.caller, request_id=call.request_id)


async def decide(call: Call[Known, Service, Any, Any], command: Command[T], render: Render[T]) -> Answer:
    """Run a command through the kernel; under an idempotency key its answer is kept and given again."""
    service = call.services
    weight = len(call.request.body)
    if call.idempotency_key is None:
        return _answer(_rendered(render(await service.kernel.run(command, weight=weight))))
    once = Once(
        inner=command,
        tenant=call.caller.tenant,
        answer_id=_scope(call, call.idempotency_key),
        request_digest=call.request_digest(),
        keep_for=timedelta(days=service.settings.idempotency_days),
        render=lambda result: _rendered(render(result)),
    )
    rendered = await service.kernel.run(once, weight=weight)
    if rendered.replayed:
        service.measures.replays.add()
    return _answer(rendered)


def _scope(call: Call[Known, Service, Any, Any], key: str) -> str:
    """Tenant + principal + operation + key; the tenant is part of the record's own key."""
    scope = "\0".join((call.caller.principal, call.operation_id, key))
    return hashlib.sha256(scope.encode()).hexdigest()


def _rendered(reply: Reply | Answer) -> Rendered:
    if isinstance(reply, Answer):
        return Rendered(reply.status, reply.body, content_type=reply.content_type)
    return Rendered(reply.status, encode(reply.value))


def _answer(rendered: Rendered) -> Answer:
    headers = (("idempotency-replayed", "true"),) if rendered.replayed else ()
    return Answer(rendered.status, rendered.body, headers, rendered.content_type)
