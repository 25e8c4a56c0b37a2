"""Principals, their API keys and sessions, and the keys that permits are signed with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from interlock.wire.fields import Body, Given, Name


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A caller: a person, an agent or a service."""

    name: str
    kind: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    owner: str | None = None
    keys_live: int = 0
    created_at: Given[datetime] = None


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret, which is kept nowhere."""

    key_id: str
    principal: str
    kind: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    owner: str | None = None
    created_at: Given[datetime] = None
    created_by: Given[str] = None
    revoked_at: datetime | None = None


class IssuedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key. `key` is shown this once, and again only to a repeat under the same `Idempotency-Key`."""

    principal: str
    tenant: str
    key: str
    key_id: str


class PermitKey(msgspec.Struct, frozen=True, kw_only=True):
    """One public key as a JSON Web Key (RFC 8037)."""

    kid: str
    x: str
    kty: str = "OKP"
    crv: str = "Ed25519"
    alg: str = "EdDSA"
    use: str = "sig"
    signs_from: datetime
    published_until: datetime | None = None


class PermitKeys(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON Web Key Set: every key that a permit in circulation may be signed with, now or soon."""

    keys: tuple[PermitKey, ...] = ()


PrincipalKind = Literal["person", "agent", "worker", "service"]
Role = Literal["submit", "work", "review", "operate", "audit", "admin"]
Roles = Annotated[list[Role], msgspec.Meta(max_length=6)]
Groups = Annotated[list[Name], msgspec.Meta(max_length=50)]


class IssueKeyBody(Body, frozen=True, kw_only=True):
    kind: PrincipalKind
    roles: Roles
    groups: Groups | None = None
    owner: Name | None = None


class SetPrincipalBody(Body, frozen=True, kw_only=True):
    roles: Roles | None = None
    groups: Groups | None = None
    owner: Name | None = None


class RotateKeysBody(Body, frozen=True, kw_only=True):
    """`revoke` is for a stolen key: all others are withdrawn at once, and with them what they signed."""

    lead_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 300
    revoke: bool = False


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A person's sign-in to the console.

    `by` is how: "key", "link" or "oidc:<provider>". `live` is whether it still counts, and `over` why it does not.
    `current` marks the session that asked.
    """

    session_id: str
    principal: str
    by: Given[str] = None
    live: bool = False
    over: str | None = None
    current: bool = False
    client: str | None = None
    user_agent: str = ""
    opened_at: Given[datetime] = None
    seen_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    ended_at: datetime | None = None
    ended_by: str | None = None


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that signs its maker in once. `path` leads to the console of the server that was asked.

    `token` is shown this once, and again only to a repeat under the same `Idempotency-Key`.
    """

    link_id: str
    token: str
    path: str
    expires_at: datetime
