"""Beginning an effect over HTTP: everything that must hold, sent along and decided at once."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any

import msgspec

from interlock.api.decoding import Spelled
from interlock.api.effect_views import effect_view
from interlock.api.grants import ExecutionId, GrantId, Groups, Task
from interlock.api.naming import TargetKey, action_id_of
from interlock.api.operations import Answer, Body, Reply
from interlock.api.problem import ProblemError, problem
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.api.targets import Version
from interlock.api.texts import Number, Text, version_text
from interlock.codec.canonical import canonical
from interlock.codec.durations import TtlSeconds
from interlock.effects.model import TTL_SECONDS_DEFAULT, EffectTarget, LeaseRef, PermitClaims
from interlock.effects.rules import BeginEffect, Begun
from interlock.grants.claiming import ClaimGrant, LookFurther
from interlock.identity.refusals import NotFound
from interlock.leases.queries import read_lease
from interlock.permits.verifying import PermitInvalid, verify_permit

FenceNumber = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
RequestHash = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=r"^[\u0021-\u007e]+$(?!\n)",
        description="Visible ASCII characters, such as sha256:….",
    ),
]


class LeaseBody(Body, frozen=True, kw_only=True):
    """The lease under which it is done, and its fence. One that was acquired with a `session` takes it here too."""

    id: Text
    fence: FenceNumber
    session: Text = ""


class TargetBody(Body, frozen=True, kw_only=True):
    """What it changes, and the version it was prepared for."""

    key: TargetKey
    version: Version | Number


class GrantBody(Body, frozen=True, kw_only=True):
    """The permission to do it: one use of a grant for `task` that fits `args`, consumed if the effect begins.

    `grant_id` names the grant, `signed` asks for a signed one, `groups` for one by a person in one of them.
    `execution_id` is that of a claim made before, whose use no effect has begun under yet; without it the action's own
    id stands for it. With `claimed_before` that use will do and no other is consumed.
    """

    task: Task
    args: Spelled = msgspec.field(default_factory=dict[str, Any])
    execution_id: ExecutionId | None = None
    grant_id: GrantId | None = None
    signed: bool = False
    groups: Groups = msgspec.field(default_factory=list[str])
    claimed_before: bool = False


class BeginBody(Body, frozen=True, kw_only=True):
    """`request_hash` names what would be done: another request under the same id is refused.

    After `ttl_seconds` without commit or fail the outcome is unknown.
    """

    request_hash: RequestHash
    job_id: Text | None = None
    permit: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    lease: LeaseBody | None = None
    target: TargetBody | None = None
    grant: GrantBody | None = None
    ttl_seconds: TtlSeconds = TTL_SECONDS_DEFAULT


async def begin(call: Asked[None, BeginBody]) -> Answer:
    body = call.body
    permit = await _permit(call) if body.permit is not None else None
    command = BeginEffect(
        caller=caller_of(call),
        action_id=action_id_of(call),
        request_hash=body.request_hash,
        ttl_seconds=body.ttl_seconds,
        job_id=permit.job_id if permit else body.job_id,
        permit=permit,
        lease=await _lease(call),
        target=_target_of(body.target) if body.target else None,
        grant=_claim(call),
    )
    return await _look_and_begin(call, command)


def _target_of(target: TargetBody) -> EffectTarget:
    return EffectTarget(key=target.key, version=version_text(target.version))


async def _look_and_begin(call: Asked[None, BeginBody], command: BeginEffect) -> Answer:
    """Begin; while the oldest grants do not fit and there are more, look further."""
    while True:
        try:
            return await decide(call, command, _begun)
        except LookFurther as further:
            command = msgspec.structs.replace(command, grant=further.claim)


def _claim(call: Asked[None, BeginBody]) -> ClaimGrant | None:
    """The claim of a grant, under the action's id at first: a repeat of the action is a repeat of the claim."""
    grant, action_id = call.body.grant, action_id_of(call)
    if grant is None:
        return None
    return ClaimGrant(
        caller=caller_of(call),
        task=grant.task,
        args=msgspec.Raw(canonical(grant.args)),
        execution_id=grant.execution_id or action_id,
        grant_id=grant.grant_id,
        signed_only=grant.signed,
        groups=tuple(grant.groups),
        claimed_before=grant.claimed_before,
        action_id=action_id,
    )


def _begun(begun: Begun) -> Reply:
    return Reply(200 if begun.replayed else 201, effect_view(begun.effect, replayed=begun.replayed))


async def _permit(call: Asked[None, BeginBody]) -> PermitClaims:
    """What the permit says, if this deployment signed it for this tenant and, if one is named, this job."""
    keys = [
        {"kid": key.kid, "kty": "OKP", "crv": "Ed25519", "x": key.public}
        for key in (await call.services.permits.ring()).keys
    ]
    body = call.body
    try:
        # Whether it is in time is for the command to say: the job's lease, by the store's clock.
        permit = verify_permit(
            body.permit or "", keys, tenant=call.caller.tenant, job_id=body.job_id, leeway_seconds=inf
        )
    except PermitInvalid as wrong:
        detail = f"the permit is not valid here ({wrong.code}): {wrong}"
        raise ProblemError(problem("forbidden", detail)) from wrong
    return PermitClaims(job_id=permit.job_id, job_hash=permit.job_hash, fence=permit.fence)


async def _lease(call: Asked[None, BeginBody]) -> LeaseRef | None:
    named = call.body.lease
    if named is None:
        return None
    lease = await read_lease(call.services.store, call.caller.tenant, named.id)
    if lease is None:
        raise NotFound("lease", named.id)
    return LeaseRef(id=lease.id, fence=named.fence, resource=lease.resource, session=named.session)
