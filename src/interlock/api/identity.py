"""Principals, API keys and sessions of people over HTTP, and the links with which people sign in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked, caller_of, decide, named, refuse
from interlock.api.heads import presented_key
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor, position
from interlock.api.problem import ProblemError, problem
from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.kernel.refusal import Next
from interlock.rooms.identity import queries
from interlock.rooms.identity.keys import NewApiKey, NewSecret, make_key, make_secret, token_of
from interlock.rooms.identity.model import (
    PRINCIPALS,
    ApiKey,
    Principal,
    PrincipalKind,
    Role,
    Session,
    SignInLink,
)
from interlock.rooms.identity.principals import IssueKey, RemovePrincipal, RevokeKey, SetPrincipal
from interlock.rooms.identity.queries import FoundSession
from interlock.rooms.identity.refusals import NotFound
from interlock.rooms.identity.rules import check_roles, why_over
from interlock.rooms.identity.sessions import EndSession, MakeSignInLink
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.service.sessions import sign_in_path
from interlock.wire import identity as wire
from interlock.wire.fields import Name, Page


class KeptKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an issued key for repeats: its text only sealed, and not at all without a secret."""

    principal: str
    tenant: str
    key_id: str
    sealed: bytes | None


class KeysQuery(PageQuery, frozen=True, kw_only=True):
    principal: Annotated[Name, msgspec.Meta(description="Those of this principal.")] | None = None


async def issue(call: Asked[None, wire.IssueKeyBody]) -> Answer:
    body, key = call.body, make_key()
    command = IssueKey(
        tenant=call.caller.tenant,
        name=_name(call),
        kind=PrincipalKind(body.kind),
        roles=tuple(map(Role, body.roles)),
        groups=None if body.groups is None else tuple(body.groups),
        owner=body.owner,
        key_id=key.id,
        digest=key.digest,
        by=caller_of(call),
    )
    answer = await decide(call, command, lambda stored: Reply(201, _kept_key(call, stored, key)))
    call.services.keyring.forget()
    kept = msgspec.json.decode(answer.body, type=KeptKey)
    text = key.text if kept.key_id == key.id else _unsealed(call, kept)
    view = wire.IssuedKey(principal=kept.principal, tenant=kept.tenant, key=text, key_id=kept.key_id)
    return Answer(answer.status, msgspec.json.encode(view), answer.headers)


async def set_principal(call: Asked[None, wire.SetPrincipalBody]) -> Answer:
    body = call.body
    command = SetPrincipal(
        tenant=call.caller.tenant,
        name=_name(call),
        roles=None if body.roles is None else tuple(map(Role, body.roles)),
        groups=None if body.groups is None else tuple(body.groups),
        owner=body.owner,
        by=caller_of(call),
    )
    call.services.keyring.forget()
    answer = await decide(call, command, lambda principal: Reply(200, _principal_view(principal)))
    call.services.keyring.forget()
    return answer


async def remove_principal(call: Asked[None, None]) -> Answer:
    command = RemovePrincipal(tenant=call.caller.tenant, name=_name(call), by=caller_of(call))
    answer = await decide(call, command, lambda principal: Reply(200, _principal_view(principal)))
    call.services.keyring.forget()
    return answer


async def revoke(call: Asked[None, None]) -> Answer:
    found = await queries.find_key(call.services.store, call.path["key_id"])
    if found is None or found[0].tenant != call.caller.tenant:
        return await refuse(call, NotFound("key", call.path["key_id"]))
    key, principal = found
    command = RevokeKey(tenant=call.caller.tenant, key_id=key.id, principal=principal.id, by=caller_of(call))
    answer = await decide(call, command, lambda revoked: Reply(200, key_view(revoked, principal)))
    call.services.keyring.forget()
    return answer


async def list_keys(call: Asked[KeysQuery, None]) -> Reply:
    store, tenant, query = call.services.store, call.caller.tenant, call.query
    before = position(query.cursor)
    if query.principal is None:
        rows, cursor = await queries.list_keys(store, tenant, before=before, limit=query.limit)
    elif (known := await store.get(PRINCIPALS, tenant, query.principal)) is not None:
        rows, cursor = await queries.list_keys_of(store, known, before=before, limit=query.limit)
    else:
        rows, cursor = [], None
    return Reply(200, Page(items=tuple(key_view(*row) for row in rows), next_cursor=cursor))


async def list_principals(call: Asked[PageQuery, None]) -> Reply:
    found, cursor = await queries.list_principals(
        call.services.store, call.caller.tenant, after=call.query.cursor, limit=call.query.limit
    )
    return Reply(200, Page(items=tuple(_principal_view(each) for each in found), next_cursor=cursor))


async def get_principal(call: Asked[None, None]) -> Reply:
    found = await call.services.store.get(PRINCIPALS, call.caller.tenant, _name(call))
    if found is None:
        raise NotFound("principal", call.path["name"])
    return Reply(200, _principal_view(found))


async def who_am_i(call: Asked[None, None]) -> Reply:
    return Reply(200, _principal_view(call.caller.who))


def _kept_key(call: Asked[None, wire.IssueKeyBody], stored: Principal, key: NewApiKey) -> KeptKey:
    secret = sealing_secret(call)
    sealed = seal(key.text.encode(), secret, purpose=_PURPOSE, about=key.id) if secret else None
    return KeptKey(principal=stored.id, tenant=stored.tenant, key_id=key.id, sealed=sealed)


def _unsealed(call: Asked[None, wire.IssueKeyBody], kept: KeptKey) -> str:
    try:
        if kept.sealed is None:
            raise CannotUnseal("there was no secret to seal it with")
        return unseal(kept.sealed, sealing_secret(call), purpose=_PURPOSE, about=kept.key_id).decode()
    except CannotUnseal:
        detail = (
            f"this request issued key {kept.key_id} of {kept.principal} before, and only the key that asked for "
            "it can be shown it again; if it was lost, revoke it and issue another under a new idempotency key"
        )
        then = Next("revoke_api_key", {"key_id": kept.key_id})
        members = {"key_id": kept.key_id, "principal": kept.principal}
        raise ProblemError(problem("key_already_issued", detail, then=then, members=members)) from None


def sealing_secret(call: Asked[Any, Any]) -> str:
    """What seals a kept secret: the caller's own credential and the request's key.

    A repeat presents both, and the store has only their digests. The owner of an embedded store's file has no key;
    then it is the server's secret, if there is one.
    """
    caller = call.caller.caller
    has_key = caller.key_id is not None or caller.session_id is not None
    secret = presented_key(call.request) if has_key else call.services.settings.secret
    return f"{secret}\n{call.idempotency_key}" if secret and call.idempotency_key else ""


def _name(call: Asked[Any, Any]) -> str:
    """The principal that the path names."""
    return named(call, "name", Name, "is not a name; use up to 100 letters, digits and any of _ . : @ -")


def _principal_view(principal: Principal) -> wire.Principal:
    return wire.Principal(
        name=principal.id,
        kind=principal.kind.value,
        roles=tuple(role.value for role in principal.roles),
        groups=principal.groups,
        owner=principal.owner,
        keys_live=principal.keys_live,
        created_at=principal.created_at,
    )


def key_view(key: ApiKey, principal: Principal) -> wire.ApiKey:
    return wire.ApiKey(
        key_id=key.id,
        principal=key.principal,
        kind=principal.kind.value,
        roles=tuple(role.value for role in principal.roles),
        groups=principal.groups,
        owner=principal.owner,
        created_at=key.created_at,
        created_by=key.created_by,
        revoked_at=key.revoked_at,
    )


class SessionsQuery(PageQuery, frozen=True, kw_only=True):
    principal: (
        Annotated[
            str, msgspec.Meta(min_length=1, max_length=100, description="Those of this person; admins only.")
        ]
        | None
    ) = None
    all: Annotated[bool, msgspec.Meta(description="Those of everybody in the tenant; admins only.")] = False


class KeptLink(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a sign-in link for repeats: its token only sealed, and not at all without a secret."""

    link_id: str
    expires_at: datetime
    sealed: bytes | None


async def list_sessions(call: Asked[SessionsQuery, None]) -> Reply:
    query, caller = call.query, call.caller
    whose = None if query.all else query.principal or caller.principal
    if whose != caller.principal:
        check_roles(caller.who, Role.ADMIN)
    found, cursor = await queries.list_sessions(
        call.services.store,
        caller.tenant,
        principal=whose,
        before=id_cursor(query.cursor, "ses"),
        limit=query.limit,
    )
    return Reply(200, Page(items=tuple(_listed_session(call, each) for each in found), next_cursor=cursor))


async def end_session(call: Asked[None, None]) -> Answer:
    command = EndSession(caller=caller_of(call), session_id=call.path["session_id"])
    answer = await decide(
        call, command, lambda ended: Reply(200, _session_view(call, ended, "the session was ended"))
    )
    call.services.keyring.forget()
    return answer


async def make_sign_in_link(call: Asked[None, None]) -> Answer:
    secret = make_secret()
    command = MakeSignInLink(caller=caller_of(call), digest=secret.digest)
    made: list[str] = []

    def kept(link: SignInLink) -> Reply:
        made[:] = [link.id]
        return Reply(201, _kept_link(call, link, secret))

    answer = await decide(call, command, kept)
    link = msgspec.json.decode(answer.body, type=KeptLink)
    is_new = made == [link.link_id]
    token = token_of(link.link_id, secret.text) if is_new else _unsealed_link(call, link)
    view = wire.SignInLink(
        link_id=link.link_id, token=token, path=sign_in_path(token), expires_at=link.expires_at
    )
    return Answer(answer.status, msgspec.json.encode(view), answer.headers)


def _kept_link(call: Asked[None, None], link: SignInLink, secret: NewSecret) -> KeptLink:
    sealing = sealing_secret(call)
    token = token_of(link.id, secret.text).encode()
    sealed = seal(token, sealing, purpose=_LINK_PURPOSE, about=link.id) if sealing else None
    return KeptLink(link_id=link.id, expires_at=link.expires_at, sealed=sealed)


def _unsealed_link(call: Asked[None, None], kept: KeptLink) -> str:
    try:
        if kept.sealed is None:
            raise CannotUnseal("there was no secret to seal it with")
        return unseal(kept.sealed, sealing_secret(call), purpose=_LINK_PURPOSE, about=kept.link_id).decode()
    except CannotUnseal:
        detail = (
            f"this request made the sign-in link {kept.link_id} before, and only the caller that made it can be shown "
            "it again; make another one under a new idempotency key"
        )
        raise ProblemError(problem("conflict", detail, members={"link_id": kept.link_id})) from None


def _listed_session(call: Asked[Any, Any], found: FoundSession) -> wire.Session:
    over = why_over(found.session, found.principal, found.key, call.services.now())
    return _session_view(call, found.session, over)


def _session_view(call: Asked[Any, Any], session: Session, over: str | None) -> wire.Session:
    return wire.Session(
        session_id=session.id,
        principal=session.principal,
        by=session.by,
        live=over is None,
        over=over,
        current=call.caller.caller.session_id == session.id,
        client=session.client,
        user_agent=session.user_agent,
        opened_at=session.opened_at,
        seen_at=session.seen_at,
        expires_at=session.expires_at,
        ended_at=session.ended_at,
        ended_by=session.ended_by,
    )


_TAG = "Identity"
_PURPOSE = b"interlock issued key v1"
_LINK_PURPOSE = b"interlock sign-in link v1"
_ADMIN = ("admin",)
_NAME = {"name": "The principal's name."}

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="who_am_i", method="GET", path="/api/v1/principals/me", tag=_TAG,
        summary="Who this key belongs to", answers={200: wire.Principal}, answer=who_am_i,
    ),
    Operation(
        id="list_principals", method="GET", path="/api/v1/principals", tag=_TAG, roles=_ADMIN,
        summary="Principals of this tenant by name", query=PageQuery,
        answers={200: Page[wire.Principal]}, answer=list_principals,
    ),
    Operation(
        id="get_principal", method="GET", path="/api/v1/principals/{name}", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Read one principal",
        description="A principal called `me` is read from the list: this address means the caller.",
        answers={200: wire.Principal}, answer=get_principal,
    ),
    Operation(
        id="set_principal", method="PUT", path="/api/v1/principals/{name}", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Change what a principal may do", body=wire.SetPrincipalBody,
        answers={200: wire.Principal}, answer=set_principal, problems=("conflict", "people_only"),
    ),
    Operation(
        id="remove_principal", method="DELETE", path="/api/v1/principals/{name}", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Forget a principal without live keys",
        description="What it did stays on record under its name, so do not give the name to another principal.",
        answers={200: wire.Principal}, answer=remove_principal, problems=("conflict", "people_only"),
    ),
    Operation(
        id="issue_key", method="POST", path="/api/v1/principals/{name}/keys", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Give a principal a key, creating it if it is new", body=wire.IssueKeyBody,
        description="A repeat under the same `Idempotency-Key`, with the same admin key, shows the same key again.",
        answers={201: wire.IssuedKey}, answer=issue, problems=("conflict", "key_already_issued", "people_only"),
    ),
    Operation(
        id="list_api_keys", method="GET", path="/api/v1/api-keys", tag=_TAG, roles=_ADMIN,
        summary="Keys of this tenant, newest first", query=KeysQuery,
        answers={200: Page[wire.ApiKey]}, answer=list_keys,
    ),
    Operation(
        id="revoke_api_key", method="POST", path="/api/v1/api-keys/{key_id}/revoke", tag=_TAG, roles=_ADMIN,
        parameters={"key_id": "The public id of the key."}, summary="End a key for good",
        answers={200: wire.ApiKey}, answer=revoke, problems=("people_only",),
    ),
    Operation(
        id="list_sessions", method="GET", path="/api/v1/sessions", tag=_TAG, query=SessionsQuery,
        summary="Your sessions, newest first; those of others for admins",
        answers={200: Page[wire.Session]}, answer=list_sessions, problems=("forbidden",),
    ),
    Operation(
        id="end_session", method="POST", path="/api/v1/sessions/{session_id}/end", tag=_TAG,
        parameters={"session_id": "The id of the session."},
        summary="End a session: your own, or as an admin that of any person",
        description="The person is signed out at once. To end one that has ended changes nothing.",
        answers={200: wire.Session}, answer=end_session, problems=("not_found", "forbidden", "people_only"),
    ),
    Operation(
        id="make_sign_in_link", method="POST", path="/api/v1/sign-in-links", tag=_TAG,
        summary="Make a link that signs you in to the console, once",
        description="It works for 15 minutes, and ends with the key it was made with. People only.",
        answers={201: wire.SignInLink}, answer=make_sign_in_link, problems=("people_only", "conflict"),
    ),
)  # fmt: skip
