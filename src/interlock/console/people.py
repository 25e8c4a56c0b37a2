"""People and programs: who may do what, their API keys, and who is signed in. Everybody sees themselves here."""

from __future__ import annotations

from typing import Any, get_args

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.kernel.ids import new_id
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.identity import ApiKey, IssuedKey, Principal, PrincipalKind, Session

_LIST = "/console/people"
_ONE = _LIST + "/{name}"
_KINDS: tuple[str, ...] = get_args(PrincipalKind)
_ROLES = {
    "submit": "proposes jobs",
    "work": "carries jobs out",
    "review": "decides requests",
    "operate": "steps in: retries, cancels, resolves",
    "audit": "reads everything",
    "admin": "changes people, keys and the policy",
}
# The first that fits: browsers name their ancestors too.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)
_OUTCOMES = {
    "ended": "The session was ended: the person is signed out.",
    "revoked": "The key was revoked: the next request with it is refused.",
    "removed": "They were removed. What they did stays on record under their name.",
    "changed": "What they may do was changed. It applies from their next request on.",
}


async def show(visit: Visit) -> Response:
    return await _list(visit, notice=visit.outcome(_OUTCOMES))


async def show_one(visit: Visit) -> Response:
    return await _one(visit, notice=visit.outcome(_OUTCOMES))


async def add(visit: Visit) -> Response:
    """Make a principal with its first key. A principal that exists already is changed on its own page instead."""
    name = visit.form.one("name")
    body = {
        "kind": visit.form.one("kind"),
        "roles": visit.form.all("role"),
        "groups": visit.form.words("groups"),
        "owner": visit.form.one("owner") or None,
    }
    try:
        if name and await _known(visit, name):
            text = (
                f"{name} is there already. Open {name} in the list to change their roles or to issue a key."
            )
            return await _list(visit, notice=Notice(text=text, is_problem=True, status=409))
        made = await visit.api.ask("issue_key", IssuedKey, path={"name": name}, body=body)
    except Refused as refused:
        return await _list(visit, notice=notice_of(refused.refusal))
    return await _list(visit, notice=Notice(text=f"{made.principal} was added, with an API key."), made=made)


async def _known(visit: Visit, name: str) -> bool:
    try:
        await visit.api.ask("get_principal", Principal, path={"name": name})
    except Refused as refused:
        if refused.refusal.status == 404:
            return False
        raise
    return True


async def change(visit: Visit) -> Response:
    """Change what a principal may do."""
    body = {
        "roles": visit.form.all("role"),
        "groups": visit.form.words("groups"),
        "owner": visit.form.one("owner") or None,
    }
    try:
        await visit.api.ask("set_principal", Principal, path=visit.path, body=body)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return _back(visit, "changed")


async def issue(visit: Visit) -> Response:
    """Give a principal one more key; its roles and groups stay."""
    once = visit.form.one("once")
    try:
        known = await visit.api.ask("get_principal", Principal, path=visit.path)
        body = {"kind": known.kind, "roles": known.roles}
        made = await visit.api.ask("issue_key", IssuedKey, path=visit.path, body=body, once=once)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return await _one(visit, notice=Notice(text=f"{made.principal} has one more API key."), made=made)


async def revoke(visit: Visit) -> Response:
    """End a key, from its owner's page or from the list of all."""
    try:
        await visit.api.ask("revoke_api_key", ApiKey, path={"key_id": visit.form.one("key_id")})
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    if visit.form.one("back") == "keys":
        return visit.redirect(_LIST, tab="keys", outcome="revoked")
    return _back(visit, "revoked")


async def remove(visit: Visit) -> Response:
    try:
        await visit.api.ask("remove_principal", Principal, path=visit.path)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_LIST, outcome="removed")


async def end(visit: Visit) -> Response:
    """End a session, and come back to the list it was in."""
    try:
        await visit.api.ask("end_session", Session, path={"session_id": visit.form.one("session_id")})
    except Refused as refused:
        return await _list(visit, notice=notice_of(refused.refusal))
    kept = visit.query.given("whose", "principal")
    return visit.redirect(_LIST, tab="sessions", **kept, outcome="ended")


def _back(visit: Visit, outcome: str) -> Response:
    return visit.redirect(f"{_LIST}/{visit.path['name']}", outcome=outcome)


async def _list(visit: Visit, *, notice: Notice | None = None, made: IssuedKey | None = None) -> Response:
    tab = visit.query.one("tab")
    if tab not in _tabs(visit):
        tab = "people" if visit.may("list_principals") else "sessions"
    found = await {"people": _principals, "keys": _keys, "sessions": _sessions}[tab](visit)
    return await visit.page(
        "people.html",
        notice=notice,
        you=await visit.api.ask("who_am_i", Principal),
        tab=tab,
        tabs=_tabs(visit),
        rows=found.items,
        next_cursor=found.next_cursor,
        everybody=_everybody(visit),
        whose=visit.query.one("principal"),
        made=made,
        kinds=_KINDS,
        roles=_ROLES,
        form=visit.form,
        browser=_browser,
    )


async def _one(visit: Visit, *, notice: Notice | None = None, made: IssuedKey | None = None) -> Response:
    principal = await visit.api.ask("get_principal", Principal, path=visit.path)
    query = {**visit.paging, "principal": principal.name}
    keys = await visit.api.ask("list_api_keys", Page[ApiKey], query=query)
    return await visit.page(
        "person.html",
        notice=notice,
        person=principal,
        keys=keys.items,
        next_cursor=keys.next_cursor,
        made=made,
        roles=_ROLES,
        once=new_id("form"),
    )


def _tabs(visit: Visit) -> dict[str, str]:
    """The lists that this person may see."""
    tabs = {"people": ("list_principals", "People"), "keys": ("list_api_keys", "API keys")}
    shown = {tab: name for tab, (operation, name) in tabs.items() if visit.may(operation)}
    return {**shown, "sessions": "Sessions"}


def _everybody(visit: Visit) -> bool:
    """Whether sessions of all are listed: for those who may see all principals, unless they ask for their own."""
    return visit.may("list_principals") and visit.query.one("whose") != "me"


async def _principals(visit: Visit) -> Page[Any]:
    return await visit.api.ask("list_principals", Page[Principal], query=visit.paging)


async def _keys(visit: Visit) -> Page[Any]:
    return await visit.api.ask("list_api_keys", Page[ApiKey], query=visit.paging)


async def _sessions(visit: Visit) -> Page[Any]:
    principal = visit.query.one("principal") or None
    is_all = _everybody(visit) and principal is None
    query = {**visit.paging, "principal": principal, "all": True if is_all else None}
    return await visit.api.ask("list_sessions", Page[Session], query=query)


def _browser(agent: str) -> str:
    """A browser as its user calls it; the beginning of what it says if it is none of the usual ones."""
    name = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    return f"{name} on {system}" if name and system else name or agent[:60]


PAGES = (
    PageRoute(path=_LIST, answer=show, operation="who_am_i"),
    PageRoute(method="POST", path=_LIST, answer=add, operation="issue_key"),
    PageRoute(method="POST", path="/console/sessions/end", answer=end, operation="end_session"),
    PageRoute(path="/console/sessions/end", answer=show, operation="list_sessions"),
    PageRoute(path=_ONE, answer=show_one, operation="get_principal"),
    *(
        PageRoute(method="POST", path=f"{_ONE}/{verb}", answer=answer, operation=operation)
        for verb, answer, operation in (
            ("change", change, "set_principal"),
            ("issue", issue, "issue_key"),
            ("revoke", revoke, "revoke_api_key"),
            ("remove", remove, "remove_principal"),
        )
    ),
)
