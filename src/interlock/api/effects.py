"""Effects over HTTP: begin, commit, fail, resolve; and what became of them."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.api.decoding import Spelled
from interlock.api.effect_begin import BeginBody, FenceNumber, begin
from interlock.api.effect_views import EffectView, ResultView, effect_view
from interlock.api.jobs import READERS
from interlock.api.listing import Page, PageQuery, id_cursor
from interlock.api.naming import action_id_of
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.problem import ProblemError, invalid, problem
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.codec.canonical import canonical
from interlock.codec.strict import Fault
from interlock.effects import queries
from interlock.effects.model import Effect, EffectState, Outcome
from interlock.effects.resolving import ResolveEffect
from interlock.effects.settling import CommitEffect, FailEffect
from interlock.identity.refusals import NotFound
from interlock.jobs.call_settling import ResolveDoubt
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

_ERROR_BYTES_MAX = 16 * 1024
_EVIDENCE_BYTES_MAX = 64 * 1024


class CommitBody(Body, frozen=True, kw_only=True):
    fence: FenceNumber
    result: Spelled = None


class FailBody(Body, frozen=True, kw_only=True):
    """`safe_to_retry` says that it surely did not happen; if nobody can tell, it is ambiguous."""

    fence: FenceNumber
    error: Spelled
    safe_to_retry: bool = False


class ResolveBody(Body, frozen=True, kw_only=True):
    """What happened, and how you know: a text or an object. `result` is what a replay returns."""

    outcome: Outcome
    evidence: Spelled
    result: Spelled = None


class EffectsQuery(PageQuery, frozen=True, kw_only=True):
    """`state` is by the clock: an attempt past its time is listed as `AMBIGUOUS`."""

    state: EffectState | None = None


async def commit(call: Asked[None, CommitBody]) -> Answer:
    command = CommitEffect(**_own(call), result=msgspec.Raw(canonical(call.body.result)))
    return await decide(call, command, lambda effect: Reply(200, effect_view(effect)))


async def fail(call: Asked[None, FailBody]) -> Answer:
    error = _bounded("error", call.body.error, _ERROR_BYTES_MAX)
    command = FailEffect(**_own(call), error=error, safe_to_retry=call.body.safe_to_retry)
    return await decide(call, command, lambda effect: Reply(200, effect_view(effect)))


async def resolve(call: Asked[None, ResolveBody]) -> Answer:
    body = call.body
    resolution = ResolveEffect(
        caller=caller_of(call),
        action_id=action_id_of(call),
        outcome=body.outcome,
        evidence=evidence_of(body.evidence),
        result=msgspec.Raw(canonical(body.result)),
    )
    return await decide(
        call, ResolveDoubt(resolution=resolution), lambda effect: Reply(200, effect_view(effect))
    )


def evidence_of(given: Any) -> msgspec.Raw:
    """How somebody knows what happened: it must say something, and not too much."""
    evidence = _bounded("evidence", given, _EVIDENCE_BYTES_MAX)
    said = msgspec.json.decode(evidence)
    if (said.strip() if isinstance(said, str) else said) in (None, "", [], {}):
        raise invalid(Fault("/evidence", "is empty; say how you know what happened"))
    return evidence


async def read(call: Asked[None, None]) -> Reply:
    return Reply(200, effect_view(await _read(call), call.services.now()))


async def result(call: Asked[None, None]) -> Reply:
    effect = await _read(call)
    if effect.stored_result is None:
        return Reply(200, ResultView(digest=None, size=len(effect.result), result=effect.result))
    kept = await queries.read_result(call.services.store, call.caller.tenant, effect.stored_result.id)
    if kept is None:
        raise NotFound("result of", effect.id)
    return Reply(200, ResultView(digest=kept.digest, size=kept.size, result=kept.result))


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
    items = [effect_view(effect, now) for effect in found.items]
    return Reply(200, Page(items=items, next_cursor=found.next_cursor))


def _own(call: Asked[None, Any]) -> dict[str, Any]:
    return {"caller": caller_of(call), "action_id": action_id_of(call), "fence": call.body.fence}


async def _read(call: Asked[Any, Any]) -> Effect:
    effect = await queries.read_effect(call.services.store, call.caller.tenant, action_id_of(call))
    if effect is None:
        raise NotFound("effect", action_id_of(call))
    return effect


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
                  "not_actionable", "forbidden", "not_claimed"),
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
