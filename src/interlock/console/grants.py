"""Grants: who may do a task how often and until when, what became of the uses, and to issue or revoke one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, complaint, notice_of
from interlock.kernel.codec.pins import NotAPin, read_pin
from interlock.kernel.codec.strict import JsonRefused
from interlock.kernel.ids import new_id
from interlock.wire.fields import Page
from interlock.wire.grants import Grant, GrantLedger, GrantTally, GrantUse
from interlock.wire.http import Response

_LEDGER_PAGE = 200
_FILTERS = ("task", "state")
_STATES = ("open", "spent", "expired", "revoked")
_FIELDS = ("task", "pins", "uses", "expires_in", "standing", "reason")
_WORDS = {"max": "at most", "glob": "like", "exact": "is"}
_OUTCOMES = {
    "issued": "The grant is issued.",
    "revoked": "The grant is revoked: what was left of it cannot be used.",
}


class BadPins(ValueError):
    """Pins that cannot be read."""


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def issue(visit: Visit) -> Response:
    """Issue a grant. The form carries a key of its own, so that to send it twice issues one."""
    form = visit.form
    try:
        body = _asked_for(visit)
    except BadPins as wrong:
        return await _page(visit, notice=complaint(str(wrong)))
    key = form.one("key") or new_id("form")
    try:
        grant = await visit.api.ask("issue_grant", Grant, body=body, once=key)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"/console/grants/{grant.id}", outcome="issued")


async def show_one(visit: Visit) -> Response:
    return await _one(visit, notice=visit.outcome(_OUTCOMES))


async def revoke(visit: Visit) -> Response:
    body = {"reason": visit.form.one("reason")}
    try:
        await visit.api.ask("revoke_grant", Grant, path=visit.path, body=body)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"/console/grants/{visit.path['grant_id']}", outcome="revoked")


def read_pins(text: str) -> dict[str, Any]:
    """Pins as on the command line, one a line: `repo = billing`, `amount_cents <= 500`, `branch ~ fix/*`."""
    pins: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            path, value = read_pin(line)
        except NotAPin as wrong:
            raise BadPins(f"Line {number} {wrong}.") from None
        except JsonRefused as refused:
            reason = refused.faults[0].reason
            raise BadPins(f"Line {number} cannot be kept as it is: {reason}.") from None
        if path in pins:
            raise BadPins(f"Line {number} pins {path} a second time. Keep one of the two lines.")
        pins[path] = value
    return pins


def pin_words(pins: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Each pin as a path, how it narrows, and the value."""
    return [(path, *_narrowing(value)) for path, value in pins.items()]


def _narrowing(value: Any) -> tuple[str, Any]:
    if isinstance(value, dict):
        ways = cast("dict[str, Any]", value)
        for way, bound in ways.items():
            return _WORDS.get(way, way), bound
    return _WORDS["exact"], cast("Any", value)


def _asked_for(visit: Visit) -> dict[str, Any]:
    form = visit.form
    return {
        "task": form.one("task"),
        "pins": read_pins(form.text("pins")),
        "uses": form.number("uses", "1"),
        "expires_in": form.one("expires_in") or "1h",
        "standing": form.one("standing") == "yes",
        "reason": form.one("reason"),
    }


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    filters = visit.query.given(*_FILTERS)
    query = {**filters, **visit.paging}
    if filters.get("state") not in (None, *_STATES):
        query["state"] = None
    found = await visit.api.ask("list_grants", Page[Grant], query=query)
    return await visit.page(
        "grants.html",
        grants=[(grant, pin_words(grant.pins)) for grant in found.items],
        next_cursor=found.next_cursor,
        ledger=await _ledger(visit, found.items),
        filters=filters,
        states=_STATES,
        form={name: visit.form.text(name).strip() for name in _FIELDS},
        key=new_id("form"),
        notice=notice,
    )


async def _ledger(visit: Visit, shown: Sequence[Grant]) -> dict[str, Any]:
    """What became of all uses of the newest grants, as recorded; for who may not ask that, of those shown."""
    if visit.may("grants_ledger"):
        counted = await visit.api.ask("grants_ledger", GrantLedger, query={"limit": _LEDGER_PAGE})
        scope = f"the newest {counted.grants} grants" if counted.next_cursor else "all grants"
        return {"scope": scope, "sums": counted, "uneven": counted.uneven}
    sums = {name: sum(getattr(grant.tally, name) for grant in shown) for name in GrantTally.__struct_fields__}
    return {"scope": "the grants on this page", "sums": GrantTally(**sums), "uneven": ()}


async def _one(visit: Visit, *, notice: Notice | None = None) -> Response:
    grant = await visit.api.ask("get_grant", Grant, path=visit.path)
    uses = await visit.api.ask(
        "grant_uses",
        Page[GrantUse],
        path=visit.path,
        query=visit.paging,
    )
    return await visit.page(
        "grant.html",
        grant=grant,
        pins=pin_words(grant.pins),
        uses=uses.items,
        next_cursor=uses.next_cursor,
        notice=notice,
    )


PAGES = (
    PageRoute(path="/console/grants", operation="list_grants", answer=show),
    PageRoute(method="POST", path="/console/grants", operation="issue_grant", answer=issue),
    PageRoute(path="/console/grants/{grant_id}", operation="get_grant", answer=show_one),
    PageRoute(
        method="POST", path="/console/grants/{grant_id}/revoke", operation="revoke_grant", answer=revoke
    ),
)
