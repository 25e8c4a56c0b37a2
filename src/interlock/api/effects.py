"""Effects over HTTP: begin, commit, fail, resolve, and read them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import Any
from urllib.parse import quote

import msgspec

from interlock.api.calls import Asked, caller_of, decide, named
from interlock.api.jobs import READERS, version_text
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.api.problem import ProblemError, invalid, problem
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import JsonFault
from interlock.rooms.effects import queries
from interlock.rooms.effects.model import (
    Effect,
    EffectState,
    EffectTarget,
    LeaseRef,
    Outcome,
    PermitClaims,
)
from interlock.rooms.effects.settlement import CommitEffect, FailEffect, ResolveEffect
from interlock.rooms.grants.claims import ClaimGrant, LookFurther
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.jobs.effect_intent import BeginEffect, BegunEffect
from interlock.rooms.jobs.settlement import ResolveDoubt
from interlock.rooms.leases.queries import read_lease
from interlock.rooms.permits.verification import PermitInvalid, verify_permit
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import effects as wire
from interlock.wire.fields import ACTION_ID_CHARACTERS_MAX, OMITTED, ActionId, Page


async def begin(call: Asked[None, wire.BeginEffectBody]) -> Answer:
    body = call.body
    permit = await _permit(call) if body.permit is not None else None
    command = BeginEffect(
        caller=caller_of(call),
        action_id=_action_id_of(call),
        request_hash=body.request_hash,
        ttl_seconds=body.ttl_seconds,
        job_id=permit.job_id if permit else body.job_id,
        permit=permit,
        lease=await _lease(call),
        target=_target_of(body.target) if body.target else None,
        grant=_claim(call),
    )
    return await _look_and_begin(call, command)


def _target_of(target: wire.EffectTargetBody) -> EffectTarget:
    return EffectTarget(key=target.key, version=version_text(target.version))


async def _look_and_begin(call: Asked[None, wire.BeginEffectBody], command: BeginEffect) -> Answer:
    """Begin; while the oldest grants do not fit and there are more, look further."""
    while True:
        try:
            return await decide(call, command, lambda begun: _begun(begun, call.caller.principal))
        except LookFurther as further:
            command = msgspec.structs.replace(command, grant=further.claim)


def _claim(call: Asked[None, wire.BeginEffectBody]) -> ClaimGrant | None:
    """The claim of a grant, under the action's id at first: a repeat of the action is a repeat of the claim."""
    grant, action_id = call.body.grant, _action_id_of(call)
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


def _begun(begun: BegunEffect, seen_by: str) -> Reply:
    return Reply(200 if begun.replayed else 201, effect_view(begun.effect, seen_by, replayed=begun.replayed))


async def _permit(call: Asked[None, wire.BeginEffectBody]) -> PermitClaims:
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


async def _lease(call: Asked[None, wire.BeginEffectBody]) -> LeaseRef | None:
    named = call.body.lease
    if named is None:
        return None
    lease = await read_lease(call.services.store, call.caller.tenant, named.id)
    if lease is None:
        raise NotFound("lease", named.id)
    return LeaseRef(id=lease.id, fence=named.fence, resource=lease.resource, session=named.session)


def _action_id_of(call: Asked[Any, Any]) -> str:
    """The action that the path names."""
    spelling = f"up to {ACTION_ID_CHARACTERS_MAX} characters, none of them a control character"
    return named(call, "action_id", ActionId, f"is not an action id; use {spelling}")


_ERROR_BYTES_MAX = 16 * 1024
_EVIDENCE_BYTES_MAX = 64 * 1024


class EffectsQuery(PageQuery, frozen=True, kw_only=True):
    """`state` is by the clock: an attempt past its time is listed as `AMBIGUOUS`."""

    state: EffectState | None = None


async def commit(call: Asked[None, wire.CommitEffectBody]) -> Answer:
    command = CommitEffect(**_own(call), result=msgspec.Raw(canonical(call.body.result)))
    return await decide(call, command, _viewed(call))


async def fail(call: Asked[None, wire.FailEffectBody]) -> Answer:
    error = _bounded("error", call.body.error, _ERROR_BYTES_MAX)
    command = FailEffect(**_own(call), error=error, safe_to_retry=call.body.safe_to_retry)
    return await decide(call, command, _viewed(call))


async def resolve(call: Asked[None, wire.ResolveEffectBody]) -> Answer:
    body = call.body
    resolution = ResolveEffect(
        caller=caller_of(call),
        action_id=_action_id_of(call),
        outcome=Outcome(body.outcome),
        evidence=evidence_of(body.evidence),
        result=msgspec.Raw(canonical(body.result)),
    )
    return await decide(call, ResolveDoubt(resolution=resolution), _viewed(call))


def _viewed(call: Asked[Any, Any]) -> Callable[[Effect], Reply]:
    return lambda effect: Reply(200, effect_view(effect, call.caller.principal))


def evidence_of(given: Any) -> msgspec.Raw:
    """How the caller knows what happened: it must say something, and not too much."""
    evidence = _bounded("evidence", given, _EVIDENCE_BYTES_MAX)
    said = msgspec.json.decode(evidence)
    if (said.strip() if isinstance(said, str) else said) in (None, "", [], {}):
        raise invalid(JsonFault("/evidence", "is empty; say how you know what happened"))
    return evidence


async def read(call: Asked[None, None]) -> Reply:
    return Reply(200, effect_view(await _read(call), call.caller.principal, call.services.now()))


async def result(call: Asked[None, None]) -> Reply:
    effect = await _read(call)
    if effect.stored_result is None:
        return Reply(200, wire.EffectResult(digest=None, size=len(effect.result), result=effect.result))
    kept = await queries.read_result(call.services.store, call.caller.tenant, effect.stored_result.id)
    if kept is None:
        raise NotFound("result of", effect.id)
    return Reply(200, wire.EffectResult(digest=kept.digest, size=kept.size, result=kept.result))


async def listed(call: Asked[EffectsQuery, None]) -> Reply:
    query, now = call.query, call.services.now()
    found = await queries.list_effects(
        call.services.store,
        call.caller.tenant,
        state=query.state,
        now=now,
        before=id_cursor(query.cursor, "eff"),
        limit=query.limit,
    )
    items = tuple(effect_view(effect, call.caller.principal, now) for effect in found.items)
    return Reply(200, Page(items=items, next_cursor=found.next_cursor))


def _own(call: Asked[None, Any]) -> dict[str, Any]:
    return {"caller": caller_of(call), "action_id": _action_id_of(call), "fence": call.body.fence}


async def _read(call: Asked[Any, Any]) -> Effect:
    effect = await queries.read_effect(call.services.store, call.caller.tenant, _action_id_of(call))
    if effect is None:
        raise NotFound("effect", _action_id_of(call))
    return effect


def _bounded(what: str, value: Any, most: int) -> msgspec.Raw:
    spelled = canonical(value)
    if len(spelled) > most:
        detail = (
            f"{what} has {len(spelled)} bytes, more than {most}; keep the bulk elsewhere and send a reference"
        )
        raise ProblemError(problem("too_large", detail, members={"limit_bytes": most}))
    return msgspec.Raw(spelled)


def effect_view(
    effect: Effect, seen_by: str, now: datetime | None = None, *, replayed: bool = False
) -> wire.Effect:
    """An effect for `seen_by` as it was decided or, if it was only read, as it stands `now`."""
    target, said, is_own = effect.target, effect.resolved, effect.begun_by == seen_by
    return wire.Effect(
        action_id=effect.id,
        state=(effect.state_at(now) if now else effect.state).value,
        fence=effect.fence if is_own else OMITTED,
        downstream_key=effect.downstream_key,
        request_hash=effect.request_hash,
        begun_by=effect.begun_by,
        first_begun_at=effect.first_begun_at,
        begun_at=effect.begun_at,
        expires_at=effect.expires_at,
        ended_at=effect.ended_at,
        result=effect.result,
        stored_result=_stored_view(effect),
        error=effect.error,
        doubt=effect.doubt.value if effect.doubt else None,
        job_id=effect.job_id,
        job_hash=effect.job_hash,
        lease=_lease_view(effect, is_own=is_own),
        target=wire.TargetUsed(key=target.key, version=target.version) if target else None,
        grant=_grant_view(effect),
        resolved=(
            wire.Resolved(outcome=said.outcome.value, by=said.by, at=said.at, evidence=said.evidence)
            if said
            else None
        ),
        replayed=replayed,
    )


def _lease_view(effect: Effect, *, is_own: bool) -> wire.LeaseUsed | None:
    lease = effect.lease
    if lease is None:
        return None
    fence = lease.fence if is_own else OMITTED
    return wire.LeaseUsed(id=lease.id, fence=fence, resource=lease.resource, session=lease.session)


def _grant_view(effect: Effect) -> wire.GrantUsed | None:
    grant = effect.grant
    return wire.GrantUsed(id=grant.id, task=grant.task, use=grant.use) if grant else None


def _stored_view(effect: Effect) -> wire.StoredResult | None:
    stored = effect.stored_result
    if stored is None:
        return None
    pointer = f"/api/v1/effects/{quote(effect.id, safe='')}/result"
    return wire.StoredResult(digest=stored.digest, size=stored.size, pointer=pointer)


_TAG = "Effects"
_ACTORS = ("submit", "work", "operate", "admin")
_ID = {"action_id": "Your own name for the action, percent-encoded: `refund%3A4711`."}
_PATH = "/api/v1/effects/{action_id}"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_effects", method="GET", path="/api/v1/effects", tag=_TAG, roles=READERS,
        summary="Effects, newest first", query=EffectsQuery, answers={200: Page[wire.Effect]}, answer=listed,
    ),
    Operation(
        id="get_effect", method="GET", path=_PATH, tag=_TAG, roles=READERS, parameters=_ID,
        summary="What became of an effect", answers={200: wire.Effect}, answer=read,
    ),
    Operation(
        id="get_effect_result", method="GET", path=f"{_PATH}/result", tag=_TAG, roles=READERS, parameters=_ID,
        summary="The whole result of an effect, however large", answers={200: wire.EffectResult}, answer=result,
    ),
    Operation(
        id="begin_effect", method="POST", path=f"{_PATH}/begin", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="Take the right to act once, or learn what became of it", body=wire.BeginEffectBody,
        answers={201: wire.Effect, 200: wire.Effect}, answer=begin,
        problems=("action_id_reused", "effect_in_progress", "effect_ambiguous", "superseded", "fence_stale",
                  "not_actionable", "forbidden", "not_claimed"),
    ),
    Operation(
        id="commit_effect", method="POST", path=f"{_PATH}/commit", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="It happened, with this result", body=wire.CommitEffectBody, answers={200: wire.Effect}, answer=commit,
        problems=("fence_stale",),
    ),
    Operation(
        id="fail_effect", method="POST", path=f"{_PATH}/fail", tag=_TAG, roles=_ACTORS, parameters=_ID,
        summary="It did not happen, or nobody can tell", body=wire.FailEffectBody, answers={200: wire.Effect},
        answer=fail, problems=("fence_stale", "not_actionable", "too_large"),
    ),
    Operation(
        id="resolve_effect", method="POST", path=f"{_PATH}/resolve", tag=_TAG, parameters=_ID,
        roles=("review", "operate", "admin"), summary="Say what became of an effect whose outcome is unknown",
        body=wire.ResolveEffectBody, answers={200: wire.Effect}, answer=resolve,
        problems=("not_actionable", "people_only", "forbidden", "too_large"),
    ),
)  # fmt: skip
