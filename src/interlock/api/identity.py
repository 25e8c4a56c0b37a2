"""Principals and keys over HTTP, for admins of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.api.listing import Page, PageQuery, position
from interlock.api.operations import Answer, Body, Operation, Reply
from interlock.api.problem import invalid
from interlock.api.service_calls import Asked, caller_of, decide
from interlock.codec.strict import Fault
from interlock.identity import queries
from interlock.identity.keys import make_key
from interlock.identity.model import ApiKey, Principal, PrincipalKind, Role
from interlock.identity.refusals import NotFound
from interlock.identity.rules import IssueKey, RevokeKey, SetPrincipal
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:@\-]+$(?!\n)")]
Roles = Annotated[list[Role], msgspec.Meta(max_length=len(Role))]
Groups = Annotated[list[Name], msgspec.Meta(max_length=50)]


class PrincipalView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    roles: list[str]
    groups: list[str]
    owner: str | None
    keys_live: int
    created_at: datetime


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret, which is kept nowhere."""

    key_id: str
    principal: str
    kind: str
    roles: list[str]
    created_at: datetime
    created_by: str
    revoked_at: datetime | None


class IssuedView(msgspec.Struct, frozen=True, kw_only=True):
    """A new key. `key` is shown this once."""

    principal: str
    tenant: str
    key: str
    key_id: str


class IssueBody(Body, frozen=True, kw_only=True):
    kind: PrincipalKind
    roles: Roles
    groups: Groups | None = None
    owner: Name | None = None


class SetBody(Body, frozen=True, kw_only=True):
    roles: Roles | None = None
    groups: Groups | None = None
    owner: Name | None = None


async def issue(call: Asked[None, IssueBody]) -> Answer:
    body, key = call.body, make_key()
    command = IssueKey(
        tenant=call.caller.tenant,
        name=_name(call.path["name"]),
        kind=body.kind,
        roles=tuple(body.roles),
        groups=None if body.groups is None else tuple(body.groups),
        owner=body.owner,
        key_id=key.id,
        digest=key.digest,
        by=caller_of(call),
    )
    tenant = call.caller.tenant
    # Never kept under an idempotency key: the answer holds a secret, and secrets are kept nowhere.
    stored = await call.services.kernel.run(command)
    call.services.keyring.forget()
    view = IssuedView(principal=stored.id, tenant=tenant, key=key.text, key_id=key.id)
    return Answer(201, msgspec.json.encode(view))


async def set_principal(call: Asked[None, SetBody]) -> Answer:
    body = call.body
    command = SetPrincipal(
        tenant=call.caller.tenant,
        name=_name(call.path["name"]),
        roles=None if body.roles is None else tuple(body.roles),
        groups=None if body.groups is None else tuple(body.groups),
        owner=body.owner,
        by=caller_of(call),
    )
    call.services.keyring.forget()
    answer = await decide(call, command, lambda principal: Reply(200, _principal_view(principal)))
    call.services.keyring.forget()
    return answer


async def revoke(call: Asked[None, None]) -> Answer:
    found = await queries.find_key(call.services.store, call.path["key_id"])
    if found is None or found[0].tenant != call.caller.tenant:
        raise NotFound("key", call.path["key_id"])
    key, principal = found
    command = RevokeKey(tenant=call.caller.tenant, key_id=key.id, principal=principal.id, by=caller_of(call))
    answer = await decide(call, command, lambda revoked: Reply(200, _key_view(revoked, principal)))
    call.services.keyring.forget()
    return answer


async def list_keys(call: Asked[PageQuery, None]) -> Reply:
    rows, cursor = await queries.list_keys(
        call.services.store, call.caller.tenant, before=position(call.query.cursor), limit=call.query.limit
    )
    return Reply(200, Page(items=[_key_view(*row) for row in rows], next_cursor=cursor))


async def list_principals(call: Asked[PageQuery, None]) -> Reply:
    found, cursor = await queries.list_principals(
        call.services.store, call.caller.tenant, after=call.query.cursor, limit=call.query.limit
    )
    return Reply(200, Page(items=[_principal_view(each) for each in found], next_cursor=cursor))


async def who_am_i(call: Asked[None, None]) -> Reply:
    return Reply(200, _principal_view(call.caller.who))


def _name(given: str) -> str:
    """A principal's name out of a path, held to the same rule as in a body."""
    try:
        return msgspec.convert(given, Name)
    except msgspec.ValidationError:
        reason = "is not a name; use up to 100 letters, digits and any of _ . : @ -"
        raise invalid(Fault("path/name", reason)) from None


def _principal_view(principal: Principal) -> PrincipalView:
    return PrincipalView(
        name=principal.id,
        kind=principal.kind.value,
        roles=[role.value for role in principal.roles],
        groups=list(principal.groups),
        owner=principal.owner,
        keys_live=principal.keys_live,
        created_at=principal.created_at,
    )


def _key_view(key: ApiKey, principal: Principal) -> KeyView:
    return KeyView(
        key_id=key.id,
        principal=key.principal,
        kind=principal.kind.value,
        roles=[role.value for role in principal.roles],
        created_at=key.created_at,
        created_by=key.created_by,
        revoked_at=key.revoked_at,
    )


_TAG = "Identity"
_ADMIN = ("admin",)
_NAME = {"name": "The principal's name."}

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="who_am_i", method="GET", path="/api/v1/principals/me", tag=_TAG,
        summary="Who this key belongs to", answers={200: PrincipalView}, answer=who_am_i,
    ),
    Operation(
        id="list_principals", method="GET", path="/api/v1/principals", tag=_TAG, roles=_ADMIN,
        summary="Principals of this tenant by name", query=PageQuery,
        answers={200: Page[PrincipalView]}, answer=list_principals,
    ),
    Operation(
        id="set_principal", method="PUT", path="/api/v1/principals/{name}", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Change what a principal may do", body=SetBody,
        answers={200: PrincipalView}, answer=set_principal,
    ),
    Operation(
        id="issue_key", method="POST", path="/api/v1/principals/{name}/keys", tag=_TAG, roles=_ADMIN,
        parameters=_NAME, summary="Give a principal a key, creating it if it is new", body=IssueBody,
        answers={201: IssuedView}, answer=issue, problems=("conflict",),
    ),
    Operation(
        id="list_api_keys", method="GET", path="/api/v1/api-keys", tag=_TAG, roles=_ADMIN,
        summary="Keys of this tenant, newest first", query=PageQuery,
        answers={200: Page[KeyView]}, answer=list_keys,
    ),
    Operation(
        id="revoke_api_key", method="POST", path="/api/v1/api-keys/{key_id}/revoke", tag=_TAG, roles=_ADMIN,
        parameters={"key_id": "The public id of the key."}, summary="End a key for good",
        answers={200: KeyView}, answer=revoke,
    ),
)  # fmt: skip
