"""Effects: actions that happen once. First those whose outcome is unknown, and how a person says what happened."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from interlock.console.client import Refused
from interlock.console.visit import ROWS, Notice, PageRoute, Visit, complaint, notice_of
from interlock.wire.effects import Effect, EffectResult
from interlock.wire.fields import Page
from interlock.wire.http import Response

STATES = {
    "AMBIGUOUS": "Outcome unknown",
    "IN_PROGRESS": "In progress",
    "FAILED": "Failed",
    "COMMITTED": "Committed",
}
_OUTCOMES = {
    "committed": "Recorded: it happened. It will not run again.",
    "not_committed": "Recorded: it did not happen. It may run again.",
}


async def show_list(visit: Visit) -> Response:
    action_id = visit.query.one("id")
    if action_id:
        return await _found(visit, action_id)
    return await _list_page(visit)


async def _found(visit: Visit, action_id: str) -> Response:
    """Go to the effect that was named, or say that there is none."""
    try:
        effect = await visit.api.ask("get_effect", Effect, path={"action_id": action_id})
    except Refused as refused:
        if refused.refusal.status not in (400, 404):
            raise
        return await _list_page(visit, notice=msgspec.structs.replace(notice_of(refused.refusal), status=404))
    return visit.redirect(_address(effect.action_id))


async def _list_page(visit: Visit, *, notice: Notice | None = None) -> Response:
    state = visit.query.one("state")
    state = state if state in STATES else ""
    cursor = visit.query.one("cursor") or None
    found = await _some(visit, state or None, cursor)
    unknown = await _some(visit, "AMBIGUOUS", None) if not state and not cursor else None
    return await visit.page(
        "effects.html",
        unknown=unknown,
        items=[effect for effect in found.items if state or effect.state != "AMBIGUOUS"],
        next_cursor=found.next_cursor,
        states=STATES,
        state=state,
        notice=notice,
    )


async def _some(visit: Visit, state: str | None, cursor: str | None) -> Page[Effect]:
    query = {"state": state, "limit": ROWS, "cursor": cursor}
    return await visit.api.ask("list_effects", Page[Effect], query=query)


async def show(visit: Visit) -> Response:
    return await _page(visit, notice=visit.outcome(_OUTCOMES))


async def resolve(visit: Visit) -> Response:
    """Say what became of an effect, and how one knows."""
    outcome, evidence = visit.form.one("outcome"), visit.form.one("evidence")
    if not evidence:
        return await _page(visit, notice=complaint("Say how you know: it is kept as evidence."))
    body: dict[str, Any] = {"outcome": outcome, "evidence": evidence}
    if outcome == "committed" and (text := visit.form.one("result")):
        try:
            body["result"] = msgspec.json.decode(text.encode())
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            return await _page(visit, notice=complaint(f"The result is not JSON: {error}."))
    try:
        effect = await visit.api.ask("resolve_effect", Effect, path=visit.path, body=body)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_address(effect.action_id), outcome=outcome)


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    effect = await visit.api.ask("get_effect", Effect, path=visit.path)
    return await visit.page(
        "effect.html",
        effect=effect,
        result=await _result(visit, effect),
        here=visit.link(_address(effect.action_id)),
        notice=notice,
        evidence=visit.form.one("evidence"),
        given=visit.form.one("result"),
    )


async def _result(visit: Visit, effect: Effect) -> Any:
    """The result, also one that is kept beside the effect because it is large."""
    if effect.stored_result is None:
        return effect.result
    return (await visit.api.ask("get_effect_result", EffectResult, path=visit.path)).result


def _address(action_id: str) -> str:
    return f"/console/effects/{quote(action_id, safe='')}"


_ONE = "/console/effects/{action_id}"
PAGES = (
    PageRoute(path="/console/effects", operation="list_effects", answer=show_list),
    PageRoute(path=_ONE, operation="get_effect", answer=show),
    PageRoute(method="POST", path=_ONE + "/resolve", operation="resolve_effect", answer=resolve),
)
