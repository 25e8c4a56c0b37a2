"""Effects over HTTP: begin, commit, fail, resolve; and what became of them."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any

import msgspec

from interlock.api.effect_views import EffectView, ResultView, effect_view
from interlock.api.jobs import READERS, Text
from interlock.api.listing import Page, PageQuery
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.problem import ProblemError, invalid, problem
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.api.targets import Key, Version
from interlock.codec.canonical import canonical
from interlock.codec.strict import Fault
from interlock.effects import queries
from interlock.effects.checking import PermitClaims
from interlock.effects.model import TTL_SECONDS_DEFAULT, Effect, EffectState, EffectTarget, LeaseRef, Outcome
from interlock.effects.resolving import ResolveEffect
from interlock.effects.rules import BeginEffect, Begun
from interlock.effects.settling import CommitEffect, FailEffect
from interlock.identity.refusals import NotFound
from interlock.leases.queries import read_lease
from interlock.permits.verifying import PermitInvalid, verify_permit
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

ACTION_ID_CHARACTERS_MAX = 300
_ERROR_BYTES_MAX = 16 * 1024
_EVIDENCE_BYTES_MAX = 64 * 1024

FenceNumber = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
RequestHash = Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[\u0021-\u007e]+$(?!\n)")]


class LeaseBody(Body, frozen=True, kw_only=True):
    """The lease under which it is done, and its fence."""

    id: Text
    fence: FenceNumber


class TargetBody(Body, frozen=True, kw_only=True):
    """What it changes, and the version it was prepared for."""

    key: Key
    version: Version


class BeginBody(Body, frozen=True, kw_only=True):
    """`request_hash` names what would be done: another request under the same id is refused.

    After `ttl_seconds` without commit or fail the outcome is unknown.
    """

    request_hash: RequestHash
    job_id: Text | None = None
    permit: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    lease: LeaseBody | None = None
    target: TargetBody | None = None
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = TTL_SECONDS_DEFAULT


class CommitBody(Body, frozen=True, kw_only=True):
    fence: FenceNumber
    result: Any = None


class FailBody(Body, frozen=True, kw_only=True):
    """`safe_to_retry` says that it surely did not happen; if nobody can tell, it is ambiguous."""

    fence: FenceNumber
    error: Any
    safe_to_retry: bool = False


class ResolveBody(Body, frozen=True, kw_only=True):
    """What happened, and how you know: a text or an object. `result` is what a replay returns."""

    outcome: Outcome
    evidence: Any
    result: Any = None


class EffectsQuery(PageQuery, frozen=True, kw_only=True):
    """An attempt past its time is listed as `AMBIGUOUS` once a sweep has marked it."""

    state: EffectState | None = None


async def begin(call: Asked[None, BeginBody]) -> Answer:
    body = call.body
    permit = await _permit(call) if body.permit is not None else None
    target = EffectTarget(key=body.target.key, version=body.target.version) if body.target else None
    command = BeginEffect(
        caller=caller_of(call),
        action_id=_action_id(call),
        request_hash=body.request_hash,
        ttl_seconds=body.ttl_seconds,
        job_id=permit.job_id if permit else body.job_id,
        permit=permit,
        lease=await _lease(call),
        target=target,
    )
    return await decide(call, command, _begun)


async def commit(call: Asked[None, CommitBody]) -> Answer:
    command = CommitEffect(**_own(call), result=msgspec.Raw(canonical(call.body.result)))
    return await decide(call, command, lambda effect: Reply(200, effect_view(effect)))


async def fail(call: Asked[None, FailBody]) -> Answer:
    error = _bounded("error", call.body.error, _ERROR_BYTES_MAX)
    command = FailEffect(**_own(call), error=error, safe_to_retry=call.body.safe_to_retry)
    return await decide(call, command, lambda effect: Reply(200, effect_view(effect)))


async def resolve(call: Asked[None, ResolveBody]) -> Answer:
    body = call.body
    if body.evidence in (None, "", [], {}):
        raise invalid(Fault("/evidence", "is empty; say how you know what happened"))
    command = ResolveEffect(
        caller=caller_of(call),
        action_id=_action_id(call),
        outcome=body.outcome,
        evidence=_bounded("evidence", body.evidence, _EVIDENCE_BYTES_MAX),
        result=msgspec.Raw(canonical(body.result)),
    )
    return await decide(call, command, lambda effect: Reply(200, effect_view(effect)))


async def read(call: Asked[None, None]) -> Reply:
    return Reply(200, effect_view(await _read(call)))


async def result(call: Asked[None, None]) -> Reply:
    effect = await _read(call)
    if effect.stored_result is None:
        return Reply(200, ResultView(digest=None, size=len(effect.result), result=effect.result))
    kept = await queries.read_result(call.services.store, call.caller.tenant, effect.stored_result.id)
    if kept is None:
        raise NotFound("result of", effect.id)
    return Reply(200, ResultView(digest=kept.digest, size=kept.size, result=kept.result))


async def listed(call: Asked[EffectsQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_effects(
        call.services.store, call.caller.tenant, state=query.state, before=query.cursor, limit=query.limit
    )
    return Reply(200, Page(items=[effect_view(each) for each in found.items], next_cursor=found.next_cursor))


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
    return LeaseRef(id=lease.id, fence=named.fence, resource=lease.resource)


def _own(call: Asked[None, Any]) -> dict[str, Any]:
    return {"caller": caller_of(call), "action_id": _action_id(call), "fence": call.body.fence}


async def _read(call: Asked[Any, Any]) -> Effect:
    effect = await queries.read_effect(call.services.store, call.caller.tenant, _action_id(call))
    if effect is None:
        raise NotFound("effect", _action_id(call))
    return effect


def _action_id(call: Asked[Any, Any]) -> str:
    action_id = call.path["action_id"]
    if len(action_id) > ACTION_ID_CHARACTERS_MAX or not action_id.isprintable():
        reason = f"an action id has at most {ACTION_ID_CHARACTERS_MAX} characters, all visible"
        raise invalid(Fault("path/action_id", reason))
    return action_id


def _bounded(what: str, value: Any, most: int) -> msgspec.Raw:
    spelled = canonical(value)
    if len(spelled) > most:
        detail = (
            f"{what} has {len(spelled)} bytes, more than {most}; keep the bulk elsewhere and send a reference"
        )
        raise ProblemError(problem("too_large", detail, members={"limit_bytes": most}))
    return msgspec.Raw(spelled)


_TAG = "Effects"
_ACTORS = ("submit", "work", "operate", "admin")
_ID = {"action_id": "Your own name for the action, percent-encoded: `refund%3A4711`."}
_PATH = "/api/v1/effects/{action_id}"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_effects", method="GET", path="/api/v1/effects", tag=_TAG, roles=READERS,
        summary="Effects, newest first", query=EffectsQuery, answers={200: Page[EffectView]}, answer=listed,
    ),
    Operation(
        id="get_effect", method="GET", path=_PATH, tag=_TAG, roles=READERS, parameters=_ID,
        summary="What became of an effect", answers={200: EffectView}, answer=read,
    ),
    Operation(
        id="get_effect_result", method="GET", path=f"{_PATH}/result", tag=_TAG, roles=READERS, parameters=_ID,
        summary="The whole result of an effect, however large", answers={200: ResultView}, answer=result,
    ),
    Operation(
        id="begin_effect", method="POST", path=f"{_PATH}/begin", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="Take the right to act once, or learn what became of it", body=BeginBody,
        answers={201: EffectView, 200: EffectView}, answer=begin,
        problems=("action_id_reused", "effect_in_progress", "effect_ambiguous", "superseded", "fence_stale",
                  "not_actionable", "forbidden"),
    ),
    Operation(
        id="commit_effect", method="POST", path=f"{_PATH}/commit", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="It happened, with this result", body=CommitBody, answers={200: EffectView}, answer=commit,
        problems=("fence_stale",),
    ),
    Operation(
        id="fail_effect", method="POST", path=f"{_PATH}/fail", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="It did not happen, or nobody can tell", body=FailBody, answers={200: EffectView}, answer=fail,
        problems=("fence_stale", "not_actionable", "too_large"),
    ),
    Operation(
        id="resolve_effect", method="POST", path=f"{_PATH}/resolve", tag=_TAG, parameters=_ID,
        roles=("review", "operate", "admin"), summary="Say what became of an effect whose outcome is unknown",
        body=ResolveBody, answers={200: EffectView}, answer=resolve,
        problems=("not_actionable", "people_only", "forbidden", "too_large"),
    ),
)  # fmt: skip
